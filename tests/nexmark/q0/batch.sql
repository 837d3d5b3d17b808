SELECT auction, bidder, price, channel, url, dateTime FROM bids
