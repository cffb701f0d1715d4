SELECT avg(CASE WHEN ai_filter('Is the review clearly positive?', reviewText) THEN 1.0 ELSE 0.0 END) AS positivity_ratio
FROM Reviews
WHERE id = 'taken_3';
