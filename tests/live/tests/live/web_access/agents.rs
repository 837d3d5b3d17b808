//! User agents, read by rules of our own.
//!
//! Owns what `ua_name` and `ua_is_bot` should say of the agents of the file and of the sample. Does not own what they say: they ask another reader.

/// What an agent is called if it holds this text; the first one counts. Crawlers come first, for they say that they are a browser too.
const CRAWLERS: [(&str, &str); 14] = [
    ("Googlebot-Mobile/", "Googlebot Mobile"),
    ("Googlebot", "Googlebot"),
    ("Baiduspider", "Baiduspider"),
    ("bingbot/", "bingbot"),
    ("BingPreview/", "BingPreview"),
    ("msnbot", "msnbot"),
    ("Yahoo! Slurp", "Yahoo! Slurp"),
    ("AhrefsBot/", "ahref AhrefsBot"),
    ("facebookexternalhit/", "facebook"),
    ("Twitterbot/", "twitter"),
    ("Feedfetcher-Google", "Google Feedfetcher"),
    ("FeedBurner/", "Google FeedBurner"),
    ("AppEngine-Google", "Google AppEngine"),
    ("Google Web Preview", "Google Web Preview"),
];

/// The same for crawlers that have no name of their own.
const OTHER_CRAWLERS: [&str; 15] = [
    "UniversalFeedParser/",
    "archive.org_bot",
    "special_archiver/",
    "ia_archiver",
    "Sogou web spider",
    "MojeekBot/",
    "MJ12bot/",
    "Exabot/",
    "YandexBot/",
    "psbot/",
    "BeetleBot",
    "LumiBot",
    "YisouSpider",
    "EasouSpider",
    "SimplePie/",
];

/// And for crawlers whose name is not judged.
const NAMED_CRAWLERS: [&str; 2] = ["Genieo/", "Indy Library"];

const BROWSERS: [(&str, &str); 9] = [
    ("compatible; MSIE ", "Internet Explorer"),
    ("Trident/", "Internet Explorer"),
    ("Opera", "Opera"),
    ("OPR/", "Opera"),
    ("GSA/", "Google Search App"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Firefox/", "Firefox"),
    ("Safari/", "Safari"),
];

/// What the functions should say of an agent.
pub struct Agent {
    /// `None` for one that these rules do not know.
    pub name: Option<&'static str>,
    pub is_bot: bool,
}

pub fn read(agent: &str) -> Agent {
    let holds = |(text, _): &&(&str, &str)| agent.contains(text);
    if let Some((_, name)) = CRAWLERS.iter().find(holds) {
        return Agent { name: Some(name), is_bot: true };
    }
    if OTHER_CRAWLERS.iter().any(|text| agent.contains(text)) {
        return Agent { name: Some("misc crawler"), is_bot: true };
    }
    if NAMED_CRAWLERS.iter().any(|text| agent.contains(text)) {
        return Agent { name: None, is_bot: true };
    }
    let name = BROWSERS.iter().find(holds).map(|(_, name)| *name);
    Agent { name, is_bot: false }
}
