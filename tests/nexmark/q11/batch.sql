WITH marked AS (
  SELECT bidder, dateTime, dateTime - lag(dateTime) OVER of_bidder >= INTERVAL '10 seconds' AS is_new FROM bids
  WINDOW of_bidder AS (PARTITION BY bidder ORDER BY dateTime)
), numbered AS (
  SELECT *, sum(CASE WHEN is_new THEN 1 ELSE 0 END) OVER (PARTITION BY bidder ORDER BY dateTime ROWS UNBOUNDED PRECEDING) AS session FROM marked
)
SELECT bidder, count(*) AS bid_count, min(dateTime) AS started, max(dateTime) + INTERVAL '10 seconds' AS ended
FROM numbered GROUP BY bidder, session
