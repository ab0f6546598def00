//! A program on a terminal of its own: keys go in, and its screen is read as a person would see it.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Flags of a terminal for input and output.
pub type Settings = [libc::tcflag_t; 4];

/// The terminal and the program on it, which is killed when this is dropped.
pub struct Terminal {
    child: Child,
    before: Settings,
    master: File,
    // Kept open, so that the settings can be looked at when the program has ended.
    slave: Option<OwnedFd>,
    screen: Arc<Mutex<vt100::Parser>>,
    reader: Option<JoinHandle<()>>,
}

fn size(rows: u16, columns: u16) -> libc::winsize {
    libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn settings(master: &File) -> Settings {
    // SAFETY: termios is plain data, filled by tcgetattr from an open terminal.
    let termios = unsafe {
        let mut termios: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(master.as_raw_fd(), &mut termios), 0, "it is a terminal");
        termios
    };
    [termios.c_iflag, termios.c_oflag, termios.c_cflag, termios.c_lflag]
}

impl Terminal {
    /// Prints `before`, then starts the program in the foreground of the terminal.
    pub fn start(mut command: Command, rows: u16, columns: u16, before: &str) -> Terminal {
        let (mut master, mut slave) = (-1, -1);
        // SAFETY: two places for descriptors, a size to read; no name and no settings are asked
        // for.
        let made = unsafe {
            libc::openpty(
                &mut master,
                &mut slave,
                std::ptr::null_mut(),
                std::ptr::null(),
                &size(rows, columns),
            )
        };
        assert_eq!(made, 0, "openpty: {}", std::io::Error::last_os_error());
        // SAFETY: openpty gave both to this process, and nothing else owns them.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let end = || slave.try_clone().expect("a descriptor");
        File::from(end()).write_all(before.as_bytes()).expect("print");
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm-256color");
        // SAFETY: setsid and ioctl may be called between fork and exec; nothing is allocated.
        unsafe {
            command.pre_exec(|| {
                let taken = libc::setsid() >= 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0;
                if taken { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
        let before = settings(&master);
        let child = command.spawn().expect("the program starts");
        drop(command);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let (shown, mut output) = (screen.clone(), master.try_clone().expect("a descriptor"));
        let read = move || {
            let mut bytes = [0; 4096];
            loop {
                match output.read(&mut bytes) {
                    // EIO: the other end is closed.
                    Ok(0) | Err(_) => return,
                    Ok(n) => shown.lock().expect("nobody panics").process(&bytes[..n]),
                }
            }
        };
        let reader = Some(std::thread::spawn(read));
        Terminal { child, before, master, slave: Some(slave), screen, reader }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The lines of the screen, without spaces at the ends.
    pub fn lines(&self) -> Vec<String> {
        let screen = self.screen.lock().expect("nobody panics");
        let columns = screen.screen().size().1;
        screen.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect()
    }

    /// Whether the program has the second screen, and whether the cursor is hidden.
    pub fn is_taken(&self) -> (bool, bool) {
        let screen = self.screen.lock().expect("nobody panics");
        (screen.screen().alternate_screen(), screen.screen().hide_cursor())
    }

    /// Settings before the program was started.
    pub fn settings_before(&self) -> Settings {
        self.before
    }

    /// Settings now.
    pub fn settings(&self) -> Settings {
        settings(&self.master)
    }

    /// Waits until the screen is as wanted; its lines.
    pub fn until(&self, what: &str, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let lines = self.lines();
            if wanted(&lines) {
                return lines;
            }
            assert!(Instant::now() < deadline, "{what}:\n{}", lines.join("\n"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Types.
    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Changes its size, as a window does.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.screen.lock().expect("nobody panics").screen_mut().set_size(rows, columns);
        // SAFETY: TIOCSWINSZ reads the size from the given place.
        let done =
            unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &size(rows, columns)) };
        assert_eq!(done, 0, "TIOCSWINSZ: {}", std::io::Error::last_os_error());
    }

    /// Waits until the program ends.
    pub fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                // Its last output is read, too.
                std::thread::sleep(Duration::from_millis(200));
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.lines().join("\n"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        match self.child.kill() {
            Err(error) if error.kind() != ErrorKind::InvalidInput => {
                eprintln!("cannot kill: {error}")
            }
            _ => drop(self.child.wait()),
        }
        self.slave = None;
        if let Some(reader) = self.reader.take() {
            drop(reader.join());
        }
    }
}
