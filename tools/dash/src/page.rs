//! The page and what it asks for. Everything it needs is in here: it works without any other
//! server.

use crate::cluster::Cluster;
use crate::http::{Answer, Ask};

const JSON: &str = "application/json; charset=utf-8";

/// Answers the page's requests; `None`: not one of them.
pub fn answer(ask: &Ask, cluster: &Cluster) -> Option<Answer> {
    Some(match ask.path.as_str() {
        "/" => Answer::ok("text/html; charset=utf-8", include_str!("page/index.html")),
        "/style.css" => Answer::ok("text/css; charset=utf-8", include_str!("page/style.css")),
        "/draw.js" => Answer::ok("text/javascript; charset=utf-8", include_str!("page/draw.js")),
        "/page.js" => Answer::ok("text/javascript; charset=utf-8", include_str!("page/page.js")),
        "/api/cluster" => json(cluster.picture()),
        "/api/detail" => match value(&ask.query, "of").and_then(|of| cluster.detail(&of)) {
            Some(detail) => json(&detail),
            None => Answer::sentence(
                404,
                "no such target or client; ask ?of=target/NAME or ?of=client/INSTANCE",
            ),
        },
        _ => return None,
    })
}

fn json(value: &impl serde::Serialize) -> Answer {
    Answer::ok(JSON, serde_json::to_vec(value).expect("plain values with text keys"))
}

/// A value of the query, decoded.
fn value(query: &str, name: &str) -> Option<String> {
    let (_, value) = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(found, _)| *found == name)?;
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        assert_eq!(
            value("a=1&of=target%2Fsheen-OST0000", "of").as_deref(),
            Some("target/sheen-OST0000")
        );
        for bad in ["", "of", "of=%", "of=%zz", "of=%ff"] {
            assert_eq!(value(bad, "of"), None, "{bad}");
        }
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let get = |path: &str| {
            answer(&Ask { path: path.into(), query: String::new() }, &Cluster::default()).map(
                |answer| {
                    assert_eq!(
                        answer.status,
                        if path == "/api/detail" { 404 } else { 200 },
                        "{path}"
                    );
                    String::from_utf8(answer.body.to_vec()).unwrap()
                },
            )
        };
        let page = get("/").unwrap();
        let script = get("/page.js").unwrap();
        for file in ["/style.css", "/draw.js", "/page.js"] {
            assert!(page.contains(file) || script.contains(file), "{file} is not used");
            assert!(
                get(file)
                    .is_some_and(|text| !text.contains("http://") || text.contains("www.w3.org")),
                "{file}"
            );
        }
        assert!(!page.contains("//cdn") && !page.contains("https://"));
        assert!(get("/api/cluster").unwrap().starts_with("{\"time_ms\":0"));
        assert!(get("/api/detail").is_some());
        assert_eq!(get("/other"), None);
    }
}
