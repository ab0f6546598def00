//! The terminal of `top`, and the wish to end that comes as a signal.

use crossterm::{cursor, execute, queue, style, terminal};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// The terminal, given back when dropped.
pub struct Screen {
    ended: Arc<AtomicBool>,
}

impl Screen {
    /// Takes the terminal, and notices SIGINT, SIGTERM and SIGHUP from now on.
    ///
    /// # Errors
    /// Standard input or output is no terminal, or no thread can be made.
    pub fn enter() -> io::Result<Screen> {
        let ended = watch_signals()?;
        terminal::enable_raw_mode()?;
        // From here on the terminal is given back whatever happens.
        let screen = Screen { ended };
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// True if a signal asked for the end.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Shows as much of the text as fits, the keys in the last line.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&self, text: &str, keys: &str) -> io::Result<()> {
        let (width, height) = terminal::size()?;
        let mut out = io::stdout().lock();
        let cut = |line: &str| line.chars().take(width.into()).collect::<String>();
        queue!(out, cursor::MoveTo(0, 0))?;
        for (n, line) in text.lines().take(height.saturating_sub(1).into()).enumerate() {
            queue!(
                out,
                cursor::MoveTo(0, n as u16),
                terminal::Clear(terminal::ClearType::CurrentLine)
            )?;
            queue!(out, style::Print(cut(line)))?;
        }
        queue!(out, terminal::Clear(terminal::ClearType::FromCursorDown))?;
        queue!(out, cursor::MoveTo(0, height.saturating_sub(1)), style::Print(cut(keys)))?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal is gone, so the failure cannot be reported.
        let _ = execute!(io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// A flag that a signal raises. Its thread ends with the process.
fn watch_signals() -> io::Result<Arc<AtomicBool>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let mut signals = [
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    ];
    drop(entered);
    let ended = Arc::<AtomicBool>::default();
    let flag = ended.clone();
    let watch = move || {
        runtime.block_on(async {
            let [interrupt, terminate, hangup] = &mut signals;
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        flag.store(true, Ordering::Release);
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch)?;
    Ok(ended)
}
