//! Requests of the kernel against a client with recorded caches, as the kernel sees their answers:
//! rows of docs/locks/kernel.md whose rule lies at the kernel's door.

#[allow(dead_code, reason = "each test file uses a part")]
#[path = "../../client/tests/integration/cluster/mod.rs"]
mod cluster;
#[allow(dead_code, reason = "each test file uses a part")]
#[path = "../../client/tests/integration/kernel/mod.rs"]
mod kernel;
#[allow(dead_code, reason = "each test file uses a part")]
#[path = "../../client/tests/integration/rig/mod.rs"]
mod rig;

use client::caller::Caller;
use client::node::NodeId;
use fuse::abi::flags::{misc, open};
use fuse::abi::inbound::{CreateIn, InHeader, LinkIn, OpenIn, SetattrIn, WriteIn};
use fuse::abi::opcode::Opcode;
use fuse::decode::{self, Dialect};
use fuse::filesystem::{Answer, FileSystem};
use fuse::notification::Notification;
use fuse::ops::{ClientFs, Style};
use fuse::process::Processes;
use fuse::reply::Reply;
use rig::{Rig, Running, SHOWN, simulated, simulated_with};
use std::sync::Arc;
use types::errno::Errno;
use types::lock::InodeBits;
use zerocopy::{FromZeros, IntoBytes};

fn message(opcode: Opcode, node: NodeId, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut header = InHeader::new_zeroed();
    header.len = (size_of::<InHeader>() + body.len()) as u32;
    (header.opcode, header.unique, header.nodeid) = (opcode as u32, 42, node.0);
    [header.as_bytes(), &body].concat()
}

/// The kernel's door of a rig.
struct Door<'a> {
    fs: ClientFs,
    rig: &'a Rig,
}

impl Door<'_> {
    fn new(rig: &Rig, style: Style) -> Door<'_> {
        Door { fs: ClientFs::new(rig.client(), Arc::new(Processes::default()), style), rig }
    }

    /// A request, which goes on beside the test if it must wait.
    fn call(&self, opcode: Opcode, node: NodeId, parts: &[&[u8]]) -> Running<Result<Reply, Errno>> {
        self.begun(&message(opcode, node, parts))
    }

    fn begun(&self, message: &[u8]) -> Running<Result<Reply, Errno>> {
        match self.fs.call(&decode::request(message, Dialect::default()).unwrap()) {
            Answer::Inline(result) => self.rig.begin(std::future::ready(result)),
            Answer::Pending(answer) => self.rig.begin(answer),
            Answer::Cancellable { .. } => panic!("it waits for no lock of a program"),
        }
    }

    /// One whose answer is not held up.
    async fn answer(&self, opcode: Opcode, node: NodeId, parts: &[&[u8]]) -> Reply {
        let running = self.call(opcode, node, parts);
        self.rig.wait_ms(1).await;
        match running.take().expect("answered").unwrap() {
            Reply::Told(reply, _) => *reply,
            reply => reply,
        }
    }

    async fn open(&self, node: NodeId, flags: i32) -> fuse::reply::Opened {
        let open = OpenIn { flags: flags as u32, open_flags: 0 };
        let Reply::Opened(opened) = self.answer(Opcode::Open, node, &[open.as_bytes()]).await
        else {
            panic!()
        };
        opened
    }

    fn write(
        &self,
        node: NodeId,
        (handle, offset): (u64, u64),
        flags: i32,
        how: u32,
    ) -> Running<Result<Reply, Errno>> {
        let mut write = WriteIn::new_zeroed();
        (write.fh, write.offset, write.size) = (handle, offset, 2);
        (write.flags, write.write_flags) = (flags as u32, how);
        self.call(Opcode::Write, node, &[write.as_bytes(), b"xy"])
    }
}

/// R9.
#[test]
fn answers_of_changes_carry_no_time_for_attributes() {
    simulated(|rig| async move {
        let door = Door::new(&rig, Style::Flock);
        let found = rig.file("f", b"").await;
        let mut set = SetattrIn::new_zeroed();
        (set.valid, set.mode) = (fuse::abi::flags::setattr::MODE, 0o600);
        let Reply::Attr(stat) = door.answer(Opcode::Setattr, found.node, &[set.as_bytes()]).await
        else {
            panic!()
        };
        assert!(stat.valid.is_zero());
        let link = LinkIn { oldnodeid: found.node.0 };
        let answer = door.answer(Opcode::Link, NodeId::ROOT, &[link.as_bytes(), b"second\0"]).await;
        let Reply::Entry(entry) = answer else { panic!() };
        assert!(entry.attr_valid.is_zero() && !entry.entry_valid.is_zero());
        let create = CreateIn { flags: libc::O_RDWR as u32, mode: 0o644, umask: 0, open_flags: 0 };
        for (name, made) in [(&b"f\0"[..], false), (b"new\0", true)] {
            let answer =
                door.answer(Opcode::Create, NodeId::ROOT, &[create.as_bytes(), name]).await;
            let Reply::Created(entry, _) = answer else { panic!() };
            assert_eq!(entry.attr_valid.is_zero(), !made);
        }
    });
}

/// R10: the token goes with the reply until the kernel has it.
#[test]
fn a_callback_waits_for_answers_that_are_not_with_the_kernel_yet() {
    for known in [true, false] {
        simulated(move |rig| async move {
            let door = Door::new(&rig, Style::Flock);
            let found = rig.file("f", b"").await;
            if !known {
                rig.revoked(found.attr.fid, SHOWN).await;
            }
            rig.cluster.asked();
            let looking = door.call(Opcode::Lookup, NodeId::ROOT, &[b"f\0"]);
            rig.settle().await;
            let reply = looking.take().expect("answered").unwrap();
            assert_eq!(rig.asked("Lookup"), usize::from(!known));
            let Reply::Told(told, _) = &reply else { panic!("{reply:?}") };
            assert!(matches!(&**told, Reply::Entry(entry) if !entry.entry_valid.is_zero()));
            let callback = rig.revoke(found.attr.fid, SHOWN);
            rig.wait_ms(10_000).await;
            assert!(!callback.is_over());
            drop(reply);
            rig.settle().await;
            assert!(callback.is_over());
        });
    }
}

/// R16.
#[test]
fn files_that_are_open_for_writing_or_contended_are_opened_past_the_page_cache() {
    simulated(|rig| async move {
        let door = Door::new(&rig, Style::Flock);
        let found = rig.file("f", b"abc").await;
        for (flags, told) in [(libc::O_RDONLY, open::KEEP_CACHE), (libc::O_RDWR, open::DIRECT_IO)] {
            let handle = door.open(found.node, libc::O_RDONLY).await.handle;
            let read = rig.read(client::open::FileHandle(handle), true);
            rig.settle().await;
            assert!(read.is_over());
            assert_eq!(door.open(found.node, flags).await.flags, told);
        }
        rig.revoked(found.attr.fid, InodeBits::DATA.union(InodeBits::UPDATE)).await;
        assert_eq!(door.open(found.node, libc::O_RDONLY).await.flags, open::DIRECT_IO);
    });
}

/// R22.
#[test]
fn the_kernel_does_not_keep_where_it_put_an_append_that_landed_elsewhere() {
    for style in [Style::Flock, Style::LocalFlock] {
        simulated_with(style.opens(), move |rig| async move {
            let door = Door::new(&rig, style);
            let found = rig.file("f", b"abc").await;
            let (node, append) = (found.node, libc::O_WRONLY | libc::O_APPEND);
            let handle = if style.opens() { door.open(node, append).await.handle } else { 0 };
            // The end is where the kernel believes it to be.
            let write = door.write(node, (handle, 3), append, 0);
            rig.settle().await;
            assert!(matches!(write.take(), Some(Ok(Reply::Written { bytes: 2, then: None }))));
            rig.cluster.resize_elsewhere(found.attr.fid, 9).await;
            rig.kernel.take();
            rig.kernel.hold("data");
            let write = door.write(node, (handle, 5), append, 0);
            rig.wait_ms(1).await;
            let drops = format!("data {}", node.0);
            assert!(rig.kernel.count(&drops) > 0 && !write.is_over(), "{style:?}");
            rig.kernel.release("data");
            rig.settle().await;
            assert!(matches!(write.take(), Some(Ok(Reply::Written { bytes: 2, then: None }))));
        });
    }
}

/// R23.
#[test]
fn a_write_that_clears_set_id_bits_makes_the_kernel_forget_attributes() {
    simulated(|rig| async move {
        let door = Door::new(&rig, Style::Flock);
        let node = rig.file("f", b"abc").await.node;
        let handle = door.open(node, libc::O_WRONLY).await.handle;
        for how in [0, misc::WRITE_KILL_SUIDGID] {
            let write = door.write(node, (handle, 0), libc::O_WRONLY, how);
            rig.wait_ms(1).await;
            let Some(Ok(Reply::Written { bytes: 2, then })) = write.take() else { panic!() };
            let forget = Notification::InvalInode { node: node.0, offset: -1, len: 0 };
            assert_eq!(then, (how != 0).then_some(forget));
        }
    });
}

/// A thread that waits in a system call until it is dropped.
struct Waits {
    thread: u32,
    end: Option<Box<dyn FnOnce() + Send>>,
    joined: Option<std::thread::JoinHandle<()>>,
}

impl Waits {
    fn new(wait: impl FnOnce() + Send + 'static, end: impl FnOnce() + Send + 'static) -> Waits {
        let (send, receive) = std::sync::mpsc::channel();
        let joined = std::thread::spawn(move || {
            send.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            wait();
        });
        let thread = receive.recv().unwrap();
        Waits { thread, end: Some(Box::new(end)), joined: Some(joined) }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.end.take().into_iter().for_each(|end| end());
        self.joined.take().into_iter().for_each(|joined| joined.join().unwrap());
    }
}

/// R24.
#[test]
fn old_attributes_of_a_busy_directory_are_for_a_walk_alone_and_are_not_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let (fifo, writer) = (path.clone(), path.clone());
    // In open(2), until there is a writer.
    let walks = Waits::new(
        move || drop(std::fs::File::open(fifo).unwrap()),
        move || drop(std::fs::OpenOptions::new().write(true).open(writer).unwrap()),
    );
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let sleeps = Waits::new(move || _ = ended.recv(), move || drop(end));
    let processes = Processes::default();
    let is_there = |_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        processes.only_walks(walks.thread)
    };
    assert!((0..500).any(is_there), "the thread does not come to its open");
    let (walks_id, sleeps_id) = (walks.thread, sleeps.thread);
    simulated(move |rig| async move {
        let door = Door::new(&rig, Style::Flock);
        let made = rig.client().mkdir(Caller::root(), NodeId::ROOT, rig::name("d"), 0o755).await;
        let dir = made.unwrap();
        rig.revoked(dir.attr.fid, SHOWN).await;
        rig.client().getattr(Caller::root(), dir.node, None).await.unwrap();
        // Others change its names, but not its mode.
        rig.revoked(dir.attr.fid, SHOWN).await;
        rig.cluster.asked();
        let by = |thread: u32| {
            let mut message = message(Opcode::Getattr, dir.node, &[&[0; 16]]);
            let pid = std::mem::offset_of!(InHeader, pid);
            message[pid..pid + 4].copy_from_slice(&thread.to_le_bytes());
            door.begun(&message)
        };
        let walked = by(walks_id);
        rig.settle().await;
        let Some(Ok(Reply::Attr(stat))) = walked.take() else { panic!("not at once") };
        assert!(stat.valid.is_zero() && rig.asked("Getattr") == 0);
        let shown = by(sleeps_id);
        rig.wait_ms(1).await;
        assert!(matches!(shown.take(), Some(Ok(_))) && rig.asked("Getattr") == 1);
    });
}
