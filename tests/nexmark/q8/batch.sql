SELECT DISTINCT people.id, name, time_bucket(INTERVAL '10 seconds', people.dateTime) AS started FROM people JOIN auctions
ON people.id = seller AND time_bucket(INTERVAL '10 seconds', people.dateTime) = time_bucket(INTERVAL '10 seconds', auctions.dateTime)
