"""Records in Protocol Buffers, and what Python's own classes read of them.

    python protobuf_records.py COUNT

First a line with two schemas of `shop.Order` as Pulsar's brokers keep them (PROTOBUF_NATIVE): without the field `total` and with it. Then COUNT lines, numbered from 1, each an
object about one record: its message, the places of that message in the file, the record in hexadecimal, and the row that it is.
"""

import base64
import datetime
import json
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

Field = descriptor_pb2.FieldDescriptorProto


def field(message, number, name, kind, of=None, optional=False):
    one = message.field.add(name=name, number=number, type=kind, label=Field.LABEL_OPTIONAL)
    if of is not None:
        one.type_name = of
    if optional:
        one.proto3_optional = True
        one.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def files(with_total):
    timestamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamp)
    place = descriptor_pb2.FileDescriptorProto(name="geo/place.proto", package="geo", syntax="proto3")
    field(place.message_type.add(name="Place"), 1, "city", Field.TYPE_STRING)
    shop = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    shop.dependency.extend([place.name, timestamp.name])
    order = shop.message_type.add(name="Order")
    refund = order.nested_type.add(name="Refund")
    field(refund, 1, "id", Field.TYPE_UINT32)
    field(refund, 2, "note", Field.TYPE_STRING)
    field(order, 1, "id", Field.TYPE_UINT32)
    field(order, 2, "at", Field.TYPE_MESSAGE, ".geo.Place")
    field(order, 3, "ordered_at", Field.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    field(order, 4, "note", Field.TYPE_STRING, optional=True)
    if with_total:
        field(order, 5, "total", Field.TYPE_DOUBLE)
    field(shop.message_type.add(name="Stock"), 1, "id", Field.TYPE_UINT32)
    # As a hash map would have them: what is imported need not come first.
    return [shop, timestamp, place]


def of_broker(with_total):
    kept = descriptor_pb2.FileDescriptorSet(file=files(with_total))
    return json.dumps(
        {
            "fileDescriptorSet": base64.b64encode(kept.SerializeToString()).decode(),
            "rootMessageTypeName": "shop.Order",
            "rootFileDescriptorName": "shop.proto",
        }
    )


pool = descriptor_pool.DescriptorPool()
for one in reversed(files(True)):
    pool.AddSerializedFile(one.SerializeToString())


def new(name):
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()


def record(n):
    """The message, its places, and a record of it."""
    if n % 7 == 5:
        refund = new("shop.Order.Refund")
        refund.id, refund.note = n, f"back {n}"
        return refund, [0, 0]
    if n % 7 == 6:
        stock = new("shop.Stock")
        stock.id = n
        return stock, [1]
    order = new("shop.Order")
    order.id, order.total = n, n / 4
    if n % 2:
        order.at.city = f"city {n % 11}"
    if n % 3:
        order.ordered_at.seconds, order.ordered_at.nanos = 1_764_000_000 + n * 61, n * 1_000
    if n % 5:
        order.note = "" if n % 5 == 1 else f"note {n}"
    return order, [0]


def row(message):
    name = message.DESCRIPTOR.full_name
    found = {"id": message.id, "city": None, "ordered_at": None, "note": None, "total": None}
    if name == "shop.Order.Refund":
        found["note"] = message.note
    if name == "shop.Order":
        found["total"] = message.total
        if message.HasField("at"):
            found["city"] = message.at.city
        if message.HasField("note"):
            found["note"] = message.note
        if message.HasField("ordered_at"):
            at = message.ordered_at
            time = datetime.datetime.fromtimestamp(at.seconds, datetime.timezone.utc)
            found["ordered_at"] = f"{time:%Y-%m-%d %H:%M:%S}.{at.nanos // 1_000:06}"
    return found


print(json.dumps([of_broker(False), of_broker(True)]))
for n in range(1, int(sys.argv[1]) + 1):
    message, places = record(n)
    written = message.SerializeToString()
    read = type(message)()
    read.ParseFromString(written)
    name = message.DESCRIPTOR.full_name
    print(json.dumps({"message": name, "places": places, "record": written.hex(), "row": row(read)}))
