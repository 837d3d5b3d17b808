use axum::http::HeaderValue;

use super::*;

fn check(names: &Names, target: &str, headers: &[(&'static str, &str)]) -> Result<(), Refusal> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    names.check(&target.parse().unwrap(), &map)
}

fn local() -> Names {
    Names::of("127.0.0.1".parse().unwrap())
}

#[test]
fn a_loopback_name_is_ours_with_and_without_port() {
    for host in [
        "localhost",
        "LocalHost:1",
        "localhost.",
        "127.0.0.1:8123",
        "127.8.0.1",
        "[::1]:1",
        "[::1]",
        "[::ffff:127.0.0.1]:9",
    ] {
        assert_eq!(check(&local(), "/", &[("host", host)]), Ok(()), "{host}");
    }
    assert_eq!(check(&local(), "/", &[]), Ok(()), "HTTP/1.0 has no host");
}

#[test]
fn a_foreign_host_is_refused() {
    let hosts = [
        "evil.example",
        "evil.example:8123",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "192.168.1.7:8123",
        "[2001:db8::1]:8123",
        "",
        "localhost@evil.example",
        "\u{e9}",
    ];
    for host in hosts {
        assert_eq!(check(&local(), "/", &[("host", host)]), Err(Refusal::Host), "{host}");
    }
    let twice = [("host", "localhost"), ("host", "evil.example")];
    assert_eq!(check(&local(), "/", &twice), Err(Refusal::Host), "two of them");
    assert_eq!(check(&local(), "http://evil.example/", &[("host", "localhost")]), Err(Refusal::Host));
    assert_eq!(check(&local(), "http://localhost:8123/", &[("host", "localhost:8123")]), Ok(()));
}

#[test]
fn the_address_that_is_listened_at_is_ours_and_so_is_an_allowed_name() {
    let lan = Names::of("192.168.1.7".parse().unwrap()).allow("Stats.Example");
    for (host, ours) in [
        ("192.168.1.7:8123", true),
        ("192.168.1.8:8123", false),
        ("stats.example:8123", true),
        ("localhost", true),
        ("evil.example", false),
    ] {
        assert_eq!(check(&lan, "/", &[("host", host)]).is_ok(), ours, "{host}");
    }
    let everywhere = Names::of("0.0.0.0".parse().unwrap());
    assert_eq!(check(&everywhere, "/", &[("host", "10.1.2.3:8123")]), Ok(()));
    assert_eq!(check(&everywhere, "/", &[("host", "evil.example")]), Err(Refusal::Host));
}

#[test]
fn a_page_of_another_origin_is_refused() {
    let host = ("host", "localhost:8123");
    for origin in [
        "https://evil.example",
        "null",
        "http://localhost:3000",
        "http://localhost",
        "file://",
        "http://127.0.0.1:8123",
    ] {
        assert_eq!(check(&local(), "/", &[host, ("origin", origin)]), Err(Refusal::Origin), "{origin}");
    }
    assert_eq!(check(&local(), "/", &[host, ("origin", "http://localhost:8123")]), Ok(()));
    assert_eq!(check(&local(), "/", &[("origin", "http://localhost:8123")]), Err(Refusal::Origin), "no host");
}

#[test]
fn a_page_of_this_server_may_ask_over_http2_where_the_target_names_it() {
    let origin = |origin| [("origin", origin)];
    let target = "https://localhost:8123/v1/streams/events";
    assert_eq!(check(&local(), target, &origin("https://localhost:8123")), Ok(()));
    for other in ["https://localhost", "https://localhost:3000", "https://evil.example", "null"] {
        assert_eq!(check(&local(), target, &origin(other)), Err(Refusal::Origin), "{other}");
    }
    assert_eq!(check(&local(), "https://evil.example/", &origin("https://evil.example")), Err(Refusal::Host));
}

#[test]
fn a_request_that_another_site_caused_is_refused() {
    let host = ("host", "localhost:8123");
    for site in ["cross-site", "same-site", "anything", ""] {
        assert_eq!(check(&local(), "/", &[host, ("sec-fetch-site", site)]), Err(Refusal::Site), "{site}");
    }
    for site in ["none", "same-origin"] {
        assert_eq!(check(&local(), "/", &[host, ("sec-fetch-site", site)]), Ok(()), "{site}");
    }
}
