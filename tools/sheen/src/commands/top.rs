//! `sheen top`: rates of targets and clients, the slowest operations, and the waits; again and
//! again, or once.
//!
//! The figures come from the reports that the MGS keeps (docs/dash.md); rates are made here from
//! two of them.

mod screen;
mod view;

use crate::cli::TopArgs;
use crate::inside;
use crate::terminal::outcome::{Exit, Failure, Outcome};
use crate::terminal::output;
use ::dash::series::STEP_MS;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use screen::Screen;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};
use view::{Order, View};

/// Two reports that make rates are at least so far apart; with room for a report's own pause.
const APART: Duration = Duration::from_millis(STEP_MS + 700);
/// A signal that asks for the end is noticed within this time.
const NOTICE: Duration = Duration::from_millis(200);
/// The last line.
const KEYS: &str = "q ends  s sorts  h helps";
/// Text that `h` shows.
const HELP: &str = "\
q  Esc  Ctrl-C  end
s               sort by name, requests, data, mean time
h  ?            this help, and back

TARGET   REQ/S, READ/S, WRITE/S: per second, over two seconds at least
         MEAN, 99%: time of a request; 99 of 100 took at most this
         AT WORK: requests without an answer
         LOCK WAITS: operations that wait for holders of locks
CLIENT   the same over its sessions with all targets
         WAITING: requests of programs that wait now
SLOWEST  operations by their mean time since their target started
JOB      what jobs did, where mounts name them (jobid_var)
WAITING  the chain from the program to who holds the lock
";

/// Shows.
pub fn run(args: &TopArgs) -> Outcome {
    let mut daemons = inside::cluster(&args.dirs, args.cluster.as_deref())?;
    let mut view = View::default();
    view.look(inside::reports(&mut daemons)?);
    if args.once || args.json {
        std::thread::sleep(APART);
        view.look(inside::reports(&mut daemons)?);
        match args.json {
            true => output::json(view.picture())?,
            false => output::data(&view.text(Order::default()))?,
        }
        return Ok(Exit::Done);
    }
    if !io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "standard output is no terminal: use --once or --json".to_owned(),
        ));
    }
    let fail = |e: io::Error| Failure::Failed(format!("cannot use the terminal: {e}"));
    let screen = Screen::enter().map_err(fail)?;
    let mut shown = Shown::default();
    let mut next = Instant::now();
    loop {
        let failure = match inside::reports(&mut daemons) {
            Ok(reports) => {
                view.look(reports);
                None
            }
            Err(failure) => Some(format!("{failure}\n")),
        };
        screen.draw(&shown.text(&view, failure.as_deref()), KEYS).map_err(fail)?;
        next += args.interval.0;
        while let Some(left) =
            next.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        {
            if screen.is_ended() {
                return Ok(Exit::Done);
            }
            if !event::poll(left.min(NOTICE)).map_err(fail)? {
                continue;
            }
            match event::read().map_err(fail)? {
                Event::Key(key) if ends(key) => return Ok(Exit::Done),
                Event::Key(key) => shown.press(key.code),
                Event::Resize(..) => {}
                _ => continue,
            }
            screen.draw(&shown.text(&view, failure.as_deref()), KEYS).map_err(fail)?;
        }
        next = next.max(Instant::now());
    }
}

fn ends(KeyEvent { code, modifiers, .. }: KeyEvent) -> bool {
    match code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c') => modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

/// Choices made by keys.
#[derive(Default)]
struct Shown {
    order: Order,
    help: bool,
}

impl Shown {
    fn press(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('h' | '?') => self.help = !self.help,
            _ => {}
        }
    }

    fn text(&self, view: &View, failure: Option<&str>) -> String {
        match failure {
            _ if self.help => HELP.to_owned(),
            Some(failure) => failure.to_owned(),
            None => view.text(self.order),
        }
    }
}
