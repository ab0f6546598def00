//! `sheen dash`: where the page of the cluster is, with the token that other users need.

use crate::cli::DashArgs;
use crate::commands::status::existing_home;
use crate::terminal::outcome::{Exit, Failure, Outcome};
use crate::terminal::output;
use node::manage::control::{self, Answer, Request};

/// Prints the address.
pub fn run(args: &DashArgs) -> Outcome {
    let home = existing_home(&args.dir)?;
    let ask = |request| {
        control::ask(&home, &request)
            .map(|(answer, _)| answer)
            .map_err(|e| Failure::No(e.to_string()))
    };
    let other =
        || Failure::Failed("the node answers something else: it is of another version".to_owned());
    let Answer::Status(status) = ask(Request::Status)? else { return Err(other()) };
    if !status.targets.iter().any(|target| target.kind == "mgt") {
        return Err(Failure::No(format!(
            "the node in {} has no MGS: ask where the MGS runs (its NIDs are in node.toml)",
            home.dir().display()
        )));
    }
    let Answer::Page { address } = ask(Request::Page)? else { return Err(other()) };
    match address {
        Some(address) => output::data(&format!("{address}\n"))?,
        None => {
            return Err(Failure::No(
                "the node answers no HTTP: start it with --http auto".to_owned(),
            ));
        }
    }
    Ok(Exit::Done)
}
