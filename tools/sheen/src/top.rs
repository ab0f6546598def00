//! `sheen top`: rates of targets and clients, the slowest operations, who waits for whom; again and again, or once.
//!
//! The figures come from the reports that the MGS keeps (docs/dash.md); rates are made here from two of them.

use crate::cli::TopArgs;
use crate::inside;
use crate::outcome::{Exit, Failure, Outcome};
use crate::output;
use crate::units::Size;
use ::dash::chain::age;
use ::dash::cluster::{Cluster, newest};
use ::dash::rates::Rates;
use ::dash::rows::Picture;
use ::dash::series::STEP_MS;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use crossterm::{cursor, execute, queue, style, terminal};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant, SystemTime};
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Style};
use wire::report::KeptReport;

/// Two reports that make rates are at least so far apart; with room for a report's own pause.
const APART: Duration = Duration::from_millis(STEP_MS + 700);
/// Slowest operations that are shown.
const SLOWEST: usize = 5;
/// Busiest jobs that are shown.
const JOBS: usize = 5;

/// Shows.
pub fn run(args: &TopArgs) -> Outcome {
    let homes = inside::homes(&args.dirs)?;
    let mut view = View::default();
    view.look(inside::reports(&homes, false)?.0);
    if args.once || args.json {
        std::thread::sleep(APART);
        view.look(inside::reports(&homes, false)?.0);
        match args.json {
            true => output::json(view.cluster.picture())?,
            false => output::data(&view.text())?,
        }
        return Ok(Exit::Done);
    }
    if !io::stdout().is_terminal() {
        return Err(Failure::Usage("standard output is no terminal: use --once or --json".to_owned()));
    }
    let fail = |e: io::Error| Failure::Failed(format!("cannot use the terminal: {e}"));
    let screen = Screen::enter().map_err(fail)?;
    let mut next = Instant::now();
    loop {
        let told = match inside::reports(&homes, false) {
            Ok((reports, _)) => {
                view.look(reports);
                view.text()
            }
            Err(failure) => format!("{failure}\n"),
        };
        screen.draw(&told).map_err(fail)?;
        next += args.interval.0;
        while let Some(left) = next.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if !event::poll(left).map_err(fail)? {
                break;
            }
            match event::read().map_err(fail)? {
                Event::Key(KeyEvent { code: KeyCode::Char('q') | KeyCode::Esc, .. }) => return Ok(Exit::Done),
                Event::Key(KeyEvent { code: KeyCode::Char('c'), modifiers: KeyModifiers::CONTROL, .. }) => {
                    return Ok(Exit::Done);
                }
                Event::Resize(..) => screen.draw(&told).map_err(fail)?,
                _ => {}
            }
        }
        next = next.max(Instant::now());
    }
}

/// The terminal, given back when dropped.
struct Screen;

impl Screen {
    fn enter() -> io::Result<Screen> {
        terminal::enable_raw_mode()?;
        // From here on the terminal is given back whatever happens.
        let screen = Screen;
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// As much of it as fits.
    fn draw(&self, text: &str) -> io::Result<()> {
        let (width, height) = terminal::size()?;
        let mut out = io::stdout().lock();
        let lines = text.lines().chain(["", "q ends"]).take(height.into());
        queue!(out, cursor::MoveTo(0, 0))?;
        for (n, line) in lines.enumerate() {
            let line: String = line.chars().take(width.into()).collect();
            queue!(out, cursor::MoveTo(0, n as u16), terminal::Clear(terminal::ClearType::CurrentLine))?;
            queue!(out, style::Print(line))?;
        }
        queue!(out, terminal::Clear(terminal::ClearType::FromCursorDown))?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nobody can be told that the terminal is gone.
        let _ = execute!(io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

#[derive(Default)]
struct View {
    cluster: Cluster,
    reports: Vec<KeptReport>,
}

impl View {
    fn look(&mut self, reports: Vec<KeptReport>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.reports = newest(reports.clone());
        self.cluster.take(now.as_millis() as u64, reports, &[]);
    }

    fn text(&self) -> String {
        let picture = self.cluster.picture();
        let mut text = summary(picture);
        text += &targets(picture);
        text += &notes(picture);
        text += &clients(picture);
        text += &self.slowest();
        text += &self.jobs();
        text += "\nWAITING for longer than a second\n";
        match picture.chains.is_empty() {
            true => text += " nothing\n",
            false => picture.chains.iter().for_each(|chain| {
                chain.text().lines().for_each(|line| writeln!(text, " {line}").expect("a string takes all"));
            }),
        }
        text
    }

    /// Operations of targets by their mean time.
    fn slowest(&self) -> String {
        let mut all = Vec::new();
        for target in self.reports.iter().flat_map(|kept| &kept.report.targets).filter(|target| target.name != "MGS") {
            for operation in target.operations.iter().filter(|operation| operation.count > 0) {
                all.push((operation.micros / operation.count, &target.name, operation));
            }
        }
        all.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (a.1, &a.2.name).cmp(&(b.1, &b.2.name))));
        let rows = all.iter().take(SLOWEST).map(|(mean, target, operation)| {
            vec![operation.name.clone(), (*target).clone(), micros(*mean as f32), operation.count.to_string()]
        });
        table(&["SLOWEST", "TARGET", "MEAN", "COUNT"], rows, 2)
    }

    /// The busiest jobs of all targets together, as far as mounts name them.
    fn jobs(&self) -> String {
        let mut all: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
        for job in self.reports.iter().flat_map(|kept| &kept.report.targets).flat_map(|target| &target.jobs) {
            let [operations, read, written] = all.entry(&job.job).or_default();
            *operations += job.operations;
            *read += job.read_bytes;
            *written += job.written_bytes;
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by_key(|(_, [operations, read, written])| std::cmp::Reverse(operations + (read + written) / 4096));
        let rows = all.into_iter().take(JOBS).map(|(job, [operations, read, written])| {
            vec![job.to_owned(), operations.to_string(), Size(read).to_string(), Size(written).to_string()]
        });
        table(&["JOB", "OPERATIONS", "READ", "WRITTEN"], rows, 1)
    }
}

/// Why a target is not simply up: `sheen-MDT0000 recovering: 1 of 2 clients came back, 9.5 s left at most`.
fn notes(picture: &Picture) -> String {
    let told = picture.targets.iter().filter(|row| !row.note.is_empty());
    let lines: String = told.map(|row| format!(" {} {}: {}\n", row.name, row.state, row.note)).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

fn summary(picture: &Picture) -> String {
    let up = picture.targets.iter().filter(|row| row.state == "up").count();
    let (targets, clients) = (picture.targets.len(), picture.clients.len());
    format!("{up} of {targets} targets up, {clients} clients, {} waits\n", picture.chains.len())
}

fn targets(picture: &Picture) -> String {
    let rows = picture.targets.iter().map(|row| {
        let used = row.space.filter(|space| space.bytes_total > 0).map_or_else(
            || "-".to_owned(),
            |space| {
                format!("{}%", (space.bytes_total - space.bytes_free.min(space.bytes_total)) * 100 / space.bytes_total)
            },
        );
        let mut cells = vec![row.name.clone(), row.state.clone(), used];
        cells.extend(rates(&row.rates));
        cells.extend([row.counts.in_flight.to_string(), row.lock_waits.to_string()]);
        cells
    });
    table(&["TARGET", "STATE", "USED", "REQ/S", "READ/S", "WRITE/S", "MEAN", "99%", "AT WORK", "LOCK WAITS"], rows, 2)
}

fn clients(picture: &Picture) -> String {
    let rows = picture.clients.iter().map(|row| {
        let mut cells = vec![format!("{}:{}", row.host, row.at), row.state.clone()];
        cells.extend(rates(&row.rates));
        cells.extend([row.counts.in_flight.to_string(), row.waiting.to_string()]);
        cells
    });
    table(&["CLIENT", "STATE", "REQ/S", "READ/S", "WRITE/S", "MEAN", "99%", "IN FLIGHT", "WAITING"], rows, 2)
}

/// A table whose first `left` columns are words; nothing if it has no row.
fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>, left: usize) -> String {
    let mut builder = Builder::default();
    builder.push_record(heads.iter().copied());
    let before = builder.count_records();
    rows.for_each(|row| builder.push_record(row));
    if builder.count_records() == before {
        return String::new();
    }
    let mut table = builder.build();
    table.with(Style::blank()).modify(Columns::new(left..), Alignment::right());
    let lines: Vec<String> = table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    format!("\n{}\n", lines.join("\n"))
}

fn rates(rates: &Rates) -> [String; 5] {
    let bytes = |n: f32| if n >= 1.0 { Size(n as u64).to_string() } else { "-".to_owned() };
    let requests = if rates.requests > 0.0 { format!("{:.1}", rates.requests) } else { "-".to_owned() };
    [requests, bytes(rates.read), bytes(rates.written), micros(rates.micros), micros(rates.p99)]
}

fn micros(n: f32) -> String {
    match n {
        n if n <= 0.0 => "-".to_owned(),
        n if n < 1000.0 => format!("{n:.0} us"),
        n if n < 1e6 => format!("{:.1} ms", n / 1000.0),
        n => age((n / 1000.0) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!([0.0, 12.4, 1500.0, 2.5e6].map(micros), ["-", "12 us", "1.5 ms", "2.5 s"]);
        let some = Rates { requests: 2.0, read: 0.0, written: 2048.0, micros: 10.0, p99: 31.0 };
        assert_eq!(rates(&some), ["2.0", "-", "2.00 KiB", "10 us", "31 us"]);
    }

    #[test]
    fn an_empty_table_is_nothing() {
        assert_eq!(table(&["A"], std::iter::empty(), 1), "");
        assert_eq!(table(&["A", "B"], [vec!["x".to_owned(), "1".to_owned()]].into_iter(), 1), "\n A   B\n x   1\n");
    }
}
