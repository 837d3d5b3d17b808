WITH hops AS (
  SELECT window_end, auction, count(*) AS num FROM (
    SELECT auction, unnest(range(1, 6)) AS n,
      time_bucket(INTERVAL '2 seconds', dateTime) + n * INTERVAL '2 seconds' AS window_end FROM bids
  ) GROUP BY window_end, auction
), best AS (SELECT window_end, max(num) AS most FROM hops GROUP BY window_end)
SELECT window_end, most, auction FROM hops JOIN best USING (window_end) SEMI JOIN ours USING (window_end, auction) WHERE num = most
