SELECT bidder, auction, price, channel, dateTime FROM (SELECT *, row_number() OVER () AS place FROM bids)
QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY place DESC) = 1
