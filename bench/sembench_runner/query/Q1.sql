SELECT reviewId
FROM Reviews
WHERE ai_filter('Is the review clearly positive?', reviewText)
LIMIT 5;
