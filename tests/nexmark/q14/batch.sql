SELECT auction, bidder, 0.908 * price AS price, dateTime,
  CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bid_time_type,
  length(url) - length(replace(url, 'c', '')) AS c_counts
FROM bids WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
