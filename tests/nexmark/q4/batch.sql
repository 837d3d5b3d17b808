SELECT category, avg(final) AS mean FROM (
  SELECT auctions.id, category, max(price) AS final FROM auctions JOIN bids ON auctions.id = auction
  WHERE bids.dateTime >= auctions.dateTime AND bids.dateTime <= expires GROUP BY auctions.id, category
) GROUP BY category
