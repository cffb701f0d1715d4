SELECT count(*) AS positive_review_cnt
FROM Reviews
WHERE id = 'taken_3' AND ai_filter('Is the review clearly positive?', reviewText);
