//! Lines of a web server that was never there, for where the real ones are not.
//!
//! Owns lines with everything that the tests look for: each has a meaning of its own only in [`super`].

use serde_json::json;
use testkit::Lcg;

/// Lines of the sample.
const LINES: u64 = 1_200;

/// Browsers, crawlers, and programs that are neither; `None` is sent too.
const AGENTS: [Option<&str>; 16] = [
    Some(
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36",
    ),
    Some("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:121.0) Gecko/20100101 Firefox/121.0"),
    Some(
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.2 Safari/605.1.15",
    ),
    Some("Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; Trident/5.0)"),
    Some("Opera/9.80 (X11; Linux x86_64) Presto/2.12.388 Version/12.16"),
    Some(
        "Mozilla/5.0 (Windows NT 6.1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/32.0.1700.107 Safari/537.36 OPR/19.0.1326.63",
    ),
    Some("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"),
    Some("Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)"),
    Some("Mozilla/5.0 (compatible; Baiduspider/2.0; +http://www.baidu.com/search/spider.html)"),
    Some("Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)"),
    Some("Twitterbot/1.0"),
    Some("facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)"),
    Some("Forebay's own agent"),
    Some("curl/8.5.0"),
    Some(""),
    None,
];

const PATHS: [&str; 8] = [
    "/",
    "/prices?page=2",
    "/prices?sort=up&page=17",
    "/prices?page=last",
    "/search?q=a+b&page=",
    "/files/plan.pdf#part-2",
    "/login?then=/account",
    "/style.css?v=9",
];

/// Of every eleven lines one is not found, of every seven one has no size, and of `PATHS` two have a page that is no number.
pub fn text() -> String {
    let mut random = Lcg::new(11);
    let mut text = String::new();
    for n in 0..LINES {
        let agent = AGENTS[random.below(AGENTS.len() as u64) as usize];
        let path = PATHS[random.below(PATHS.len() as u64) as usize];
        let (second, method) = (n * 7, ["GET", "POST", "HEAD"][n as usize % 3]);
        let line = json!({
            "request_id": format!("{n:08x}-5eed-4000-8000-{:012x}", n * 7_919),
            "remote_addr": format!("192.0.2.{}", n % 250),
            "user": (n % 5 == 0).then(|| format!("user-{}", n % 3)),
            "time": format!("2026-11-20T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60),
            "request": { "method": method, "path": path, "protocol": "HTTP/1.1" },
            "status": if n % 11 == 0 { 404 } else { [200, 206, 301, 500][n as usize % 4] },
            "bytes": (n % 7 != 0).then(|| n * 131),
            "referrer": (n % 2 == 0).then_some("https://example.com/"),
            "user_agent": agent,
        });
        text += &format!("{line}\n");
    }
    text
}
