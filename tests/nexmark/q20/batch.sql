SELECT auction, bidder, price, bids.dateTime AS bid_at, itemName, initialBid, auctions.dateTime AS opened, seller, category
FROM bids JOIN auctions ON auction = id WHERE category = 10
