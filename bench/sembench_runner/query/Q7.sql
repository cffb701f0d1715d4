WITH film AS (SELECT DISTINCT id, reviewId, reviewText FROM Reviews WHERE id = 'ant_man_and_the_wasp_quantumania'),
felt AS (SELECT id, reviewId, ai_filter('Is the review clearly positive?', reviewText) AS positive FROM film)
SELECT r1.id, r1.reviewId AS reviewId1, r2.reviewId AS reviewId2
FROM felt AS r1
JOIN felt AS r2
ON r1.id = r2.id AND r1.reviewId < r2.reviewId AND r1.positive <> r2.positive;
