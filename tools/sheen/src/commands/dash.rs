//! `sheen dash`: where the page of the cluster is.

use crate::cli::DashArgs;
use crate::commands::status::existing_home;
use crate::terminal::outcome::{Exit, Failure, Outcome};
use crate::terminal::output;
use node::manage::control::{self, Answer, Request};

/// Prints the address.
pub fn run(args: &DashArgs) -> Outcome {
    let home = existing_home(&args.dir)?;
    let status = match control::ask(&home, &Request::Status).map_err(|e| Failure::No(e.to_string()))? {
        (Answer::Status(status), _) => status,
        (other, _) => return Err(Failure::Failed(format!("the node answers something else: {other:?}"))),
    };
    if !status.targets.iter().any(|target| target.kind == "mgt") {
        return Err(Failure::No(format!(
            "the node in {} has no MGS: ask where the MGS runs (its NIDs are in node.toml)",
            home.dir().display()
        )));
    }
    match status.http {
        Some(http) => output::data(&format!("http://{http}/\n"))?,
        None => return Err(Failure::No("the node answers no HTTP: start it with --http 127.0.0.1:0".to_owned())),
    }
    Ok(Exit::Done)
}
