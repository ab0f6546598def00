//! Messages of programs: which levels are printed, and their receivers. The header's `llapi_error`
//! and `llapi_printf` end here.

use crate::door::{Text, plain};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::io::Write;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use types::errno::Errno;

/// `LLAPI_MSG_MASK`: the level within the flags.
const LEVEL: c_uint = 7;
/// `LLAPI_MSG_NO_ERRNO`
const NO_ERRNO: c_uint = 0x10;
/// `LLAPI_MSG_MAX`
const LEVEL_MAX: c_int = 7;
/// Bytes of one message, with its NUL; the rest is cut off.
const MESSAGE_BYTES: usize = 4096;
/// Bytes of the name of a command.
const NAME_BYTES_MAX: usize = 255;

/// Arguments of a message. On every machine that Linux and Rust have in common, C hands a `va_list`
/// on as a pointer.
pub type Arguments = *mut c_void;

/// A receiver of messages.
pub type Receiver = extern "C" fn(c_uint, c_int, *const c_char, Arguments);

static HIGHEST: AtomicI32 = AtomicI32::new(LEVEL_MAX);
static ERRORS: Mutex<Option<Receiver>> = Mutex::new(None);
static NEWS: Mutex<Option<Receiver>> = Mutex::new(None);
static COMMAND: Mutex<String> = Mutex::new(String::new());

unsafe extern "C" {
    fn vsnprintf(
        room: *mut c_char,
        size: usize,
        format: *const c_char,
        arguments: Arguments,
    ) -> c_int;
}

/// Messages above this level are not printed.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_msg_set_level(level: c_int) {
    HIGHEST.store(level.clamp(0, LEVEL_MAX), Ordering::Relaxed);
}

/// The highest level that is printed.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_msg_get_level() -> c_int {
    HIGHEST.load(Ordering::Relaxed)
}

fn replaced(who: &Mutex<Option<Receiver>>, by: Option<Receiver>) -> Option<Receiver> {
    std::mem::replace(&mut *who.lock().unwrap_or_else(PoisonError::into_inner), by)
}

/// Sets the receiver of errors, in place of standard error.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_error_callback_set(cb: Option<Receiver>) -> Option<Receiver> {
    plain(None, || replaced(&ERRORS, cb))
}

/// Sets the receiver of other messages, in place of standard output.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_info_callback_set(cb: Option<Receiver>) -> Option<Receiver> {
    plain(None, || replaced(&NEWS, cb))
}

/// The command that errors begin with.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_set_command_name(cmd: Text) {
    plain((), || {
        let name = cmd.bytes().unwrap_or_default();
        let name = &name[..name.len().min(NAME_BYTES_MAX)];
        *COMMAND.lock().unwrap_or_else(PoisonError::into_inner) =
            String::from_utf8_lossy(name).into_owned();
    });
}

/// There is no command any more.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_clear_command_name() {
    plain((), || COMMAND.lock().unwrap_or_else(PoisonError::into_inner).clear());
}

fn is_told(level: c_uint) -> bool {
    let level = (level & LEVEL) as c_int;
    level > 0 && level <= llapi_msg_get_level()
}

/// The message as text; what is longer than [`MESSAGE_BYTES`] is cut off.
fn written(format: Text, arguments: Arguments) -> Vec<u8> {
    let Some(_) = format.bytes() else { return Vec::new() };
    let mut room = vec![0u8; MESSAGE_BYTES];
    // SAFETY: room for that many bytes; format and arguments belong together, as C promises.
    let length =
        unsafe { vsnprintf(room.as_mut_ptr().cast(), room.len(), format.at(0), arguments) };
    room.truncate(usize::try_from(length).unwrap_or(0).min(MESSAGE_BYTES - 1));
    room
}

/// A message about an error, with the words of its errno.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_verror(level: c_uint, err: c_int, fmt: Text, ap: Arguments) {
    plain((), || {
        if !is_told(level) {
            return;
        }
        let receiver = *ERRORS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(receiver) = receiver {
            return receiver(level, err, fmt.at(0), ap);
        }
        let command = COMMAND.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let line = line(&command, &written(fmt, ap), (level & NO_ERRNO == 0).then_some(err));
        // Standard error is closed, so the failure cannot be reported.
        let _ = std::io::stderr().write_all(&line);
    });
}

fn line(command: &str, text: &[u8], err: Option<c_int>) -> Vec<u8> {
    let mut line = b"error: ".to_vec();
    if !command.is_empty() {
        line.extend_from_slice(format!("{command}: ").as_bytes());
    }
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    line.extend_from_slice(text);
    if let Some(err) = err {
        let errno = err.saturating_abs();
        let words = Errno(errno).to_string();
        let words = words.split(" (os error").next().unwrap_or(&words);
        line.extend_from_slice(format!(": {words} ({errno})").as_bytes());
    }
    line.push(b'\n');
    line
}

/// A message about anything else.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_vprintf(level: c_uint, fmt: Text, ap: Arguments) {
    plain((), || {
        if !is_told(level) {
            return;
        }
        let receiver = *NEWS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(receiver) = receiver {
            return receiver(level, 0, fmt.at(0), ap);
        }
        let mut out = std::io::stdout().lock();
        // A program that closed standard output does not want it.
        let _ = out.write_all(&written(fmt, ap)).and_then(|()| out.flush());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_lines_with_their_reason() {
        assert_eq!(
            line("", b"cannot open 'x'", Some(-2)),
            b"error: cannot open 'x': No such file or directory (2)\n"
        );
        assert_eq!(line("cp", b"so it is\n", None), b"error: cp: so it is\n");
        assert!(line("", b"", Some(c_int::MIN)).ends_with(b")\n"));
    }

    #[test]
    fn levels_keep_messages_back() {
        assert_eq!(llapi_msg_get_level(), LEVEL_MAX);
        assert!(is_told(2) && is_told(2 | NO_ERRNO) && !is_told(0));
        llapi_msg_set_level(2);
        assert!(is_told(2) && !is_told(3));
        llapi_msg_set_level(-5);
        assert!(!is_told(1));
        llapi_msg_set_level(99);
        assert_eq!(llapi_msg_get_level(), LEVEL_MAX);
    }
}
