//! Calls of etcd as JSON, and its answers. Bytes are base64, 64-bit numbers are texts, and what is
//! zero, false or empty is left out.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use store::kv::{Change, Compare, KvError, LeaseId, Outcome, Txn};

fn bytes(bytes: impl AsRef<[u8]>) -> String {
    BASE64_STANDARD.encode(bytes)
}

fn range_of(key: &String) -> Value {
    json!({ "request_range": { "key": bytes(key) } })
}

pub(crate) fn txn(txn: &Txn) -> Value {
    let compare = |compare: &Compare| match compare {
        Compare::Absent(key) => json!({
            "key": bytes(key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"
        }),
        Compare::Is(key, value) => json!({
            "key": bytes(key), "target": "VALUE", "result": "EQUAL", "value": bytes(value)
        }),
    };
    let change = |change: &Change| match change {
        Change::Put { key, value, lease } => json!({ "request_put": {
            "key": bytes(key), "value": bytes(value), "lease": lease.to_string()
        }}),
        Change::DeleteRange(start, end) => json!({ "request_delete_range": {
            "key": bytes(start), "range_end": bytes(end)
        }}),
    };
    json!({
        "compare": txn.compare.iter().map(compare).collect::<Vec<_>>(),
        "success": txn.then.iter().map(change).collect::<Vec<_>>(),
        "failure": txn.otherwise.iter().map(range_of).collect::<Vec<_>>(),
    })
}

pub(crate) fn get(keys: &[String]) -> Value {
    json!({ "success": keys.iter().map(range_of).collect::<Vec<_>>() })
}

pub(crate) fn range(start: &str, end: &str, limit: u32) -> Value {
    json!({ "key": bytes(start), "range_end": bytes(end), "limit": limit.to_string() })
}

pub(crate) fn authenticate(user: &str, password: &str) -> Value {
    json!({ "name": user, "password": password })
}

pub(crate) fn token(answer: &Value) -> Option<String> {
    answer.get("token").and_then(Value::as_str).map(str::to_owned)
}

pub(crate) fn get_alarms() -> Value {
    json!({ "action": "GET" })
}

/// Names of alarms, each once.
pub(crate) fn alarms(answer: &Value) -> Result<Vec<String>, KvError> {
    let none = Vec::new();
    let alarms = match answer.get("alarms") {
        None => &none,
        Some(alarms) => alarms.as_array().ok_or_else(|| bad("a list"))?,
    };
    let name = |alarm: &Value| {
        let name = alarm.get("alarm").and_then(Value::as_str).ok_or_else(|| bad("an alarm"))?;
        Ok(name.to_owned())
    };
    let mut names = alarms.iter().map(name).collect::<Result<Vec<_>, _>>()?;
    names.sort();
    names.dedup();
    Ok(names)
}

fn bad(what: &str) -> KvError {
    KvError::Answer(format!("{what} cannot be read"))
}

fn value_of(pair: &Value) -> Result<Vec<u8>, KvError> {
    // An empty value is left out.
    let text = pair.get("value").map_or(Some(""), Value::as_str).ok_or_else(|| bad("a value"))?;
    BASE64_STANDARD.decode(text).map_err(|_| bad("a value"))
}

/// The value of each key that was asked for.
pub(crate) fn values(answer: &Value) -> Result<Vec<Option<Vec<u8>>>, KvError> {
    let none = Vec::new();
    let responses = match answer.get("responses") {
        None => &none,
        Some(responses) => responses.as_array().ok_or_else(|| bad("a list"))?,
    };
    let value = |response: &Value| {
        let range = response.get("response_range").ok_or_else(|| bad("a range"))?;
        range.get("kvs").and_then(|pairs| pairs.get(0)).map(value_of).transpose()
    };
    responses.iter().map(value).collect()
}

pub(crate) fn outcome(answer: &Value) -> Result<Outcome, KvError> {
    match answer.get("succeeded").map(Value::as_bool) {
        Some(Some(true)) => Ok(Outcome::Done),
        None | Some(Some(false)) => Ok(Outcome::Refused(values(answer)?)),
        Some(None) => Err(bad("a result")),
    }
}

pub(crate) fn pairs(answer: &Value) -> Result<Vec<(String, Vec<u8>)>, KvError> {
    let none = Vec::new();
    let pairs = match answer.get("kvs") {
        None => &none,
        Some(pairs) => pairs.as_array().ok_or_else(|| bad("a list"))?,
    };
    let pair = |pair: &Value| {
        let key = pair.get("key").and_then(Value::as_str);
        let key = key.and_then(|text| BASE64_STANDARD.decode(text).ok());
        let key = key.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok((key.ok_or_else(|| bad("a key"))?, value_of(pair)?))
    };
    pairs.iter().map(pair).collect()
}

/// A 64-bit number; 0 if it is left out.
pub(crate) fn number(answer: &Value, name: &str) -> Result<u64, KvError> {
    match answer.get(name) {
        None => Ok(0),
        Some(value) => {
            let number = value.as_str().and_then(|text| text.parse().ok());
            number.ok_or_else(|| bad(name))
        }
    }
}

pub(crate) fn lease(id: LeaseId) -> Value {
    json!({ "ID": id.to_string() })
}

pub(crate) fn grant(seconds: u64) -> Value {
    json!({ "TTL": seconds.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_none_are_refused() {
        for text in [
            r#"{"responses": 5}"#,
            r#"{"responses": [{}]}"#,
            r#"{"responses": [{"response_range": {"kvs": [{"value": "!"}]}}]}"#,
            r#"{"responses": [{"response_range": {"kvs": [{"value": 5}]}}]}"#,
        ] {
            assert!(values(&serde_json::from_str(text).unwrap()).is_err(), "{text}");
        }
        assert!(outcome(&json!({ "succeeded": "yes" })).is_err());
        assert!(alarms(&json!({ "alarms": [{ "alarm": 1 }] })).is_err());
        assert_eq!(alarms(&json!({})), Ok(Vec::new()));
        let twice =
            json!({ "alarms": [{ "memberID": "1", "alarm": "NOSPACE" }, { "alarm": "NOSPACE" }] });
        assert_eq!(alarms(&twice), Ok(vec!["NOSPACE".to_owned()]));
        assert!(pairs(&json!({ "kvs": [{ "value": "YQ==" }] })).is_err());
        assert!(number(&json!({ "ID": 5 }), "ID").is_err());
        let found = json!({ "responses": [
            { "response_range": { "kvs": [{ "key": "YQ==", "value": "Yg==" }] } },
            { "response_range": {} },
            { "response_range": { "kvs": [{ "key": "YQ==" }] } },
        ]});
        let expected = vec![Some(b"b".to_vec()), None, Some(Vec::new())];
        assert_eq!(outcome(&found), Ok(Outcome::Refused(expected)));
    }
}
