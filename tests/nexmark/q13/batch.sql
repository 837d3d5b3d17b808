SELECT auction, bidder, price, dateTime, value FROM bids JOIN read_csv('$SIDE', header = true, columns = {'key': 'BIGINT', 'value': 'VARCHAR'}) ON auction % 500 = key
