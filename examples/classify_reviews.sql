-- A German CSV file becomes a Parquet file with a class for each review:
--     flightllm examples/bewertungen.csv < examples/classify_reviews.sql
-- The file has semicolons, days as 03.11.2024 and prices as 1.299,00. Its names can be written in any case.

SELECT count(*) AS reviews, min(gekauft) AS first_day, max(gekauft) AS last_day, sum(preis) AS total
FROM bewertungen;

COPY (
    SELECT nummer, gekauft, preis, bewertung,
           ai_classify(bewertung, ['praise', 'complaint', 'question']) AS kind
    FROM bewertungen
    ORDER BY nummer
) TO 'classified.parquet';
