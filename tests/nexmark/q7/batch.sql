WITH best AS (
  SELECT time_bucket(INTERVAL '10 seconds', dateTime) AS start, max(price) AS highest FROM bids GROUP BY start
)
SELECT DISTINCT window_end, highest, auction, bidder FROM bids
JOIN best ON price = highest AND time_bucket(INTERVAL '10 seconds', dateTime) = start
JOIN ours USING (auction, bidder, highest)
WHERE window_end = start + INTERVAL '10 seconds'
