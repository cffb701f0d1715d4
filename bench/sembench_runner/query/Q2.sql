SELECT reviewId
FROM Reviews
WHERE id = 'taken_3' AND ai_filter('Is the review clearly positive?', reviewText)
LIMIT 5;
