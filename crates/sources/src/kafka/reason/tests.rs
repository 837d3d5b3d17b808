use super::of;

#[test]
fn a_brokers_failure_is_told_with_its_address_and_its_cause() {
    for (sentence, address, reason) in [
        (
            "127.0.0.1:9/bootstrap: Connect to ipv4#127.0.0.1:9 failed: Connection refused (after 0ms in state CONNECT)",
            "127.0.0.1:9",
            "connection refused",
        ),
        (
            "[thrd:ssl://broker-1:9093/1]: ssl://broker-1:9093/1: Connect to ipv6#[::1]:9093 failed: Connection refused \
             (after 0ms in state CONNECT, 7 identical error(s) suppressed)",
            "broker-1:9093",
            "connection refused (at `[::1]:9093`)",
        ),
        (
            "GroupCoordinator: 127.0.0.1:9: Connect to ipv4#127.0.0.1:9 failed: No route to host (after 3ms in state CONNECT)",
            "127.0.0.1:9",
            "no route to host",
        ),
        (
            "sasl_ssl://nowhere.invalid:9092/bootstrap: Failed to resolve 'nowhere.invalid:9092': Name or service not known \
             (after 2ms in state CONNECT)",
            "nowhere.invalid:9092",
            "the name cannot be resolved: name or service not known",
        ),
        (
            "10.255.255.1:9092/bootstrap: Connection setup timed out in state CONNECT (after 8001ms in state CONNECT)",
            "10.255.255.1:9092",
            "nothing answers at this address: no connection within `socket.connection.setup.timeout.ms`",
        ),
        (
            "h:9092/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate verify failed (after 5ms in state \
             SSL_HANDSHAKE)",
            "h:9092",
            "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed",
        ),
        (
            "h:80/bootstrap: Receive failed: Invalid response size 1213486160 (0..536870912): increase receive.message.max.bytes \
             (after 1ms in state APIVERSION_QUERY)",
            "h:80",
            "it speaks HTTP, and is no Kafka broker: check the address and the port",
        ),
        (
            "h:9093/bootstrap: Receive failed: Invalid response size 352518912 (0..536870912): increase receive.message.max.bytes",
            "h:9093",
            "its listener speaks TLS: set `security.protocol` to `ssl` or `sasl_ssl`",
        ),
        (
            "h:9092/bootstrap: Failed to create socket: Too many open files (after 0ms in state CONNECT)",
            "h:9092",
            "this process has no file descriptor left, and the broker is not at fault: raise its limit (`ulimit -n`, `LimitNOFILE=` of a unit)",
        ),
        (
            "h:9092/3: Disconnected: verify that security.protocol is correctly configured, broker might require SASL \
             authentication (after 90ms in state UP)",
            "h:9092",
            "the broker closed the connection",
        ),
    ] {
        assert_eq!(of(sentence), (Some(address), reason.to_owned()), "{sentence}");
    }
    for sentence in [
        "h:9092/bootstrap: Connection setup timed out in state APIVERSION_QUERY (after 8001ms in state APIVERSION_QUERY)",
        "h:9092/bootstrap: ApiVersionRequest failed: Local: Timed out: probably due to broker version < 0.10 (see \
         api.version.request configuration) (after 10001ms in state APIVERSION_QUERY)",
        "h:9092/bootstrap: Disconnected: requesting ApiVersion: might be caused by incorrect security.protocol configuration \
         (connecting to a SSL listener?) or broker version is < 0.10 (see api.version.request) (after 1ms in state \
         APIVERSION_QUERY)",
    ] {
        let (address, reason) = of(sentence);
        assert_eq!(address, Some("h:9092"));
        assert!(reason.contains("`security.protocol`") && !reason.contains("0.10"), "{reason}");
    }
    for sentence in ["1/1 brokers are down", "Failed to acquire token: exit status: 1", ""] {
        assert_eq!(of(sentence), (None, sentence.to_owned()));
    }
}
