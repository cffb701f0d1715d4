SELECT CASE WHEN ai_filter('Is the review clearly positive?', reviewText) THEN 'POSITIVE' ELSE 'NEGATIVE' END AS scoreSentiment, count(*) AS count
FROM Reviews
WHERE id = 'taken_3'
GROUP BY 1;
