SELECT name, city, state, auctions.id AS auction FROM auctions JOIN people ON seller = people.id
WHERE category = 10 AND state IN ('OR', 'ID', 'CA')
