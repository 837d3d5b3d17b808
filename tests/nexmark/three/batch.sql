SELECT name AS seller, auctions.id AS auction, itemName, bidder, price, bids.dateTime AS bid_at
FROM auctions JOIN people ON seller = people.id AND people.dateTime BETWEEN auctions.dateTime - INTERVAL '1 minute' AND auctions.dateTime + INTERVAL '1 minute'
JOIN bids ON auction = auctions.id AND bids.dateTime BETWEEN auctions.dateTime AND auctions.dateTime + INTERVAL '20 seconds'
WHERE category = 10 AND price > reserve
