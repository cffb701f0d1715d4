SELECT reviewId, ai_score('How much did the reviewer like the movie?', reviewText, low => 1, high => 5) AS reviewScore
FROM Reviews
WHERE id = 'ant_man_and_the_wasp_quantumania';
