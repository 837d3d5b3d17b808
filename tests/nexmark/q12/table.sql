SELECT bidder, sum(bid_count) AS bids FROM {t} GROUP BY bidder
