SELECT id, itemName, seller, category, price, bidder, bids.dateTime AS bid_at FROM auctions JOIN bids ON id = auction
WHERE bids.dateTime >= auctions.dateTime AND bids.dateTime <= expires
QUALIFY row_number() OVER (PARTITION BY id ORDER BY price DESC, bids.dateTime) = 1
