SELECT id AS movieId, avg(ai_score('How much did the reviewer like the movie?', reviewText, low => 1, high => 5)) AS movieScore
FROM Reviews
GROUP BY id;
