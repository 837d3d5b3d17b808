SELECT bidder, count(*) AS bids FROM bids GROUP BY bidder
