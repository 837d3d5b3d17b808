SELECT bidder, auction, price, channel, dateTime FROM {t} FINAL
