//! A headless Chromium, driven over its pipe: the DevTools protocol as JSON messages that end with
//! a NUL, in at descriptor 3, out at descriptor 4.

use crate::find_program;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One browser with one page. Dropping it ends the browser.
pub struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    last: u64,
    session: Option<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts it; `None`, and says so, where Chromium is not installed.
    pub fn start() -> Option<Browser> {
        let Some(program) = find_program("chromium") else {
            eprintln!("skipped: chromium is not installed");
            return None;
        };
        let profile = tempfile::tempdir().expect("a folder");
        let (theirs_in, ours_out) = pipe();
        let (ours_in, theirs_out) = pipe();
        let (read, write) = (theirs_in.as_raw_fd(), theirs_out.as_raw_fd());
        let mut command = Command::new(program);
        command
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: between fork and exec only dup2 is called, which may be called there. First out
        // of the way of 3 and 4.
        unsafe {
            command.pre_exec(move || {
                let (read, write) =
                    (libc::fcntl(read, libc::F_DUPFD, 10), libc::fcntl(write, libc::F_DUPFD, 10));
                if read < 0 || write < 0 || libc::dup2(read, 3) < 0 || libc::dup2(write, 4) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("chromium starts");
        drop((theirs_in, theirs_out));
        let (to, from) = (File::from(ours_out), BufReader::new(File::from(ours_in)));
        let mut browser = Browser { child, to, from, last: 0, session: None, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        browser.call("Page.enable", json!({}));
        Some(browser)
    }

    /// Sends one command and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("chromium reads");
        loop {
            let mut answer = Vec::new();
            self.from.read_until(0, &mut answer).expect("chromium answers");
            assert_eq!(answer.pop(), Some(0), "chromium ended");
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            // Events have no id.
            if answer["id"] == json!(self.last) {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Opens an address.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// Value of an expression in the page.
    pub fn eval(&mut self, expression: &str) -> Value {
        let result = self
            .call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true; how long that took.
    pub fn until(&mut self, expression: &str, patience: Duration) -> Duration {
        let begun = Instant::now();
        while self.eval(expression) != json!(true) {
            if begun.elapsed() > patience {
                panic!("never true: {expression}\n{}", self.eval("document.body.innerText"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        begun.elapsed()
    }

    /// Size of the window, and the theme that the system wishes.
    pub fn look_as(&mut self, width: u32, height: u32, theme: &str) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// A picture of the page, PNG.
    pub fn picture(&mut self, path: &Path) {
        let result = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        let text = result["data"].as_str().expect("a picture").to_owned();
        std::fs::write(path, base64(&text)).expect("write the picture");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends by itself when its pipe closes; killing makes sure. It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let (read, write) = std::io::pipe().expect("a pipe");
    (read.into(), write.into())
}

fn base64(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let sextets: Vec<u8> = text.bytes().filter_map(value).collect();
    let mut bytes = Vec::new();
    for group in sextets.chunks(4) {
        let word = group.iter().fold(0u32, |word, sextet| word << 6 | u32::from(*sextet))
            << (6 * (4 - group.len()));
        bytes.extend(&word.to_be_bytes()[1..group.len()]);
    }
    bytes
}
