//! Processes of one host talk within it, and not over TCP (docs/networks.md, "Processes of one
//! host"); seen from outside.

use e2e::can_mount;
use e2e::cluster::RUN_DIR;
use e2e::process::{detach, is_mounted, kill_and_wait, text};
use e2e::site::{SOON, Site, under_load};
use rustix::fs::Uid;
use rustix::net::{AddressFamily, SocketType, connect, socket};
use rustix::thread::set_thread_res_uid;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use wire::frame::{FrameKind, HEADER_BYTES, Header};
use wire::hello::{HELLO_REPLY_BYTES, HelloReply, Welcome};

/// A user that has nothing here.
const STRANGER: u32 = 4711;
const MIB: usize = 1 << 20;
/// Beyond loopback a server without keys must be told so.
const OPEN: &[&str] = &["--security", "off"];

fn as_stranger<T>(work: impl FnOnce() -> T) -> T {
    let switch = |uid| set_thread_res_uid(Uid::ROOT, uid, Uid::ROOT).expect("root may be any user");
    switch(Uid::from_raw(STRANGER));
    let result = work();
    switch(Uid::ROOT);
    result
}

/// Bytes that an interface of a host has received.
fn received(site: &Site, host: usize, interface: &str) -> u64 {
    let output = site.hosts.command(host, Path::new("cat")).arg("/proc/net/dev").output();
    let table = String::from_utf8(output.expect("cat runs").stdout).expect("text");
    let line = table.lines().find_map(|line| line.trim().strip_prefix(&format!("{interface}:")));
    line.expect("the interface").split_whitespace().next().expect("a figure").parse().expect("it")
}

/// Addresses to which TCP connections of a host stand that lead to a server.
fn tcp_to_servers(site: &Site, host: usize) -> Vec<String> {
    let output = site.hosts.command(host, Path::new("cat")).arg("/proc/net/tcp").output();
    let table = String::from_utf8(output.expect("cat runs").stdout).expect("text");
    let row = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        let (to, state) = (words.next()?.to_owned(), words.next()?);
        // Port 988, established.
        (to.ends_with(":03DC") && state == "01").then_some(to)
    };
    table.lines().filter_map(row).collect()
}

/// Writes and reads so many bytes.
fn work(mnt: &Path, name: &str, bytes: usize) {
    let data: Vec<u8> = (0..bytes).map(|at| (at * 31) as u8).collect();
    fs::write(mnt.join(name), &data).expect("write");
    fs::File::open(mnt.join(name)).and_then(|file| file.sync_all()).expect("fsync");
    assert!(fs::read(mnt.join(name)).expect("read") == data, "{name}");
}

/// Reads a file that another mount wrote.
fn reads(mnt: &Path, name: &str, bytes: usize) {
    assert_eq!(fs::read(mnt.join(name)).expect("read").len(), bytes);
}

fn nid(site: &Site) -> String {
    format!("{}@tcp", site.hosts.address(1))
}

/// The sockets of a host.
fn sockets(site: &Site, host: usize) -> Vec<PathBuf> {
    let entries = fs::read_dir(site.at(&format!("run{host}/local"))).expect("the folder");
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    all.sort();
    all
}

/// A figure that follows a word in what `lnetctl` shows.
fn figure(shown: &str, word: &str) -> Option<u64> {
    shown.lines().find_map(|line| line.trim().strip_prefix(&format!("{word}: "))?.parse().ok())
}

#[test]
fn a_mount_beside_its_server_sends_nothing_over_tcp() {
    let Some(mut site) = Site::new(&[1, 2], &[]) else { return };
    site.serve("tcp(eth0)", OPEN);
    site.wait_in_service("server");
    let source = format!("{}:/sheen", nid(&site));
    let before = received(&site, 1, "lo");
    let near = site.mount_as(1, "near", &source, "rw");
    work(&near, "a", 64 * MIB);
    let within = received(&site, 1, "lo") - before;
    assert!(within < 4096, "{within} bytes went over loopback");
    assert_eq!(tcp_to_servers(&site, 1), Vec::<String>::new());

    let [socket] = &sockets(&site, 1)[..] else { panic!("{:?}", sockets(&site, 1)) };
    let name = socket.file_name().and_then(|name| name.to_str()).expect("text");
    assert!(name.starts_with(&format!("{}:988@tcp.", site.hosts.address(1))), "{name}");
    let mode = |path: &Path| fs::metadata(path).expect("it").mode() & 0o777;
    assert_eq!((mode(socket), mode(socket.parent().expect("a folder"))), (0o600, 0o700));

    let shown = site.lnetctl(1, &["net", "show", "-v", "--net", "local"]);
    for line in ["net type: local", "nid: 0@local", "lnd: unix", "accepts connections: yes"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(figure(&shown, "send_length").is_some_and(|bytes| bytes > 128 * MIB as u64), "{shown}");
    let shown = site.lnetctl(1, &["peer", "show", "-v", "--nid", &nid(&site)]);
    assert_eq!(figure(&shown, "links"), figure(&shown, "local links"), "{shown}");
    assert!(figure(&shown, "accepted local links").is_some_and(|links| links >= 3), "{shown}");
    assert!(site.must(1, &["lctl", "ping", &nid(&site)]).contains(&nid(&site)));
    // The client is known by the address of its host, as over TCP.
    let clients = site.must(1, &["lshowmount", "-e"]);
    assert!(clients.lines().any(|client| client == nid(&site)), "{clients}");

    // The same over TCP, if it is to be so; and that of another host.
    let before = received(&site, 1, "lo");
    let other = site.mount_as(1, "other", &source, "rw,nolocal");
    reads(&other, "a", 64 * MIB);
    let over_tcp = received(&site, 1, "lo") - before;
    assert!(over_tcp > 64 * MIB as u64, "{over_tcp}");
    assert!(!tcp_to_servers(&site, 1).is_empty());
    let far = site.mount(2, &source, "rw");
    reads(&far, "a", 64 * MIB);
    assert!(received(&site, 2, "eth0") > 64 * MIB as u64);
    // What one writes the other reads.
    work(&far, "b", MIB);
    reads(&near, "b", MIB);
}

#[test]
fn it_is_switched_off_and_on() {
    let Some(mut site) = Site::new(&[1], &[]) else { return };
    site.serve("tcp(eth0)", &["--security", "off", "--local", "false"]);
    site.wait_in_service("server");
    let source = format!("{}:/sheen", nid(&site));
    let mnt = site.mount(1, &source, "rw");
    work(&mnt, "a", 4 * MIB);
    assert!(!tcp_to_servers(&site, 1).is_empty());
    assert!(!Path::new(&site.at("run1/local")).exists(), "it offers none");
    site.lnetctl(1, &["net", "add", "--net", "local"]);
    site.wait_for("a socket", || Path::new(&site.at("run1/local")).exists());
    site.lnetctl(1, &["peer", "del", "--prim_nid", &nid(&site)]);
    work(&mnt, "a", 4 * MIB);
    assert_eq!(tcp_to_servers(&site, 1), Vec::<String>::new());
    site.lnetctl(1, &["net", "del", "--net", "local"]);
    assert_eq!(sockets(&site, 1), Vec::<PathBuf>::new());
    assert!(!site.lnetctl(1, &["net", "show"]).contains("local\n"));
    work(&mnt, "b", 4 * MIB);
    assert_eq!(tcp_to_servers(&site, 1), Vec::<String>::new(), "what stands goes on");
    site.lnetctl(1, &["peer", "del", "--prim_nid", &nid(&site)]);
    work(&mnt, "b", 4 * MIB);
    assert!(!tcp_to_servers(&site, 1).is_empty());
}

#[test]
fn a_stranger_gets_nothing_at_the_socket() {
    let Some(mut site) = Site::new(&[1], &[]) else { return };
    site.serve("tcp(eth0)", OPEN);
    site.wait_in_service("server");
    let path = sockets(&site, 1).remove(0);
    let attempt = || {
        let raw = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
        let folder = fs::File::open(path.parent().expect("a folder")).expect("root may");
        let short = format!(
            "/proc/self/fd/{}/{}",
            std::os::fd::AsRawFd::as_raw_fd(&folder),
            path.file_name().expect("a name").display()
        );
        let address = rustix::net::SocketAddrUnix::new(short).expect("it is short");
        as_stranger(|| connect(&raw, &address)).map(|()| UnixStream::from(raw))
    };
    // Whatever it is given, it may not open it.
    assert_eq!(attempt().err(), Some(rustix::io::Errno::ACCESS));
    // Opening everything to all does not change whose process it is.
    fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("chmod");
    for dir in [site.path(), Path::new(&site.at("run1")), path.parent().expect("a folder")] {
        fs::set_permissions(dir, Permissions::from_mode(0o755)).expect("chmod");
    }
    let mut stream = attempt().expect("it may open it now");
    stream.set_read_timeout(Some(SOON)).expect("a limit");
    let mut answer = [0; HEADER_BYTES + HELLO_REPLY_BYTES];
    stream.read_exact(&mut answer).expect("it is told why");
    let (header, body) = answer.split_first_chunk().expect("it is longer");
    assert_eq!(Header::decode(header).expect("a header").kind, FrameKind::HelloReply);
    assert_eq!(HelloReply::decode(body).expect("an answer").welcome, Welcome::OtherUser);
    assert_eq!(stream.read(&mut answer).expect("the end"), 0);
    assert!(site.log("server").contains("belongs to user 4711"), "{}", site.log("server"));
    let source = format!("{}:/sheen", nid(&site));
    let mnt = site.mount(1, &source, "rw");
    work(&mnt, "a", MIB);
    assert_eq!(tcp_to_servers(&site, 1), Vec::<String>::new(), "root is let in");
}

#[test]
fn the_socket_of_a_squatter_is_not_believed() {
    let Some(mut site) = Site::new(&[1], &[]) else { return };
    let serve = |site: &mut Site, local: &str| {
        site.serve("tcp(eth0)", &["--security", "off", "--local", local]);
        site.wait_for("in service", || {
            site.log("server").matches("in service").count() > usize::from(local == "false")
        });
    };
    serve(&mut site, "true");
    let path = sockets(&site, 1).remove(0);
    site.kill("server");
    assert!(fs::metadata(&path).expect("it stays").file_type().is_socket());
    // A user of the host gets hold of the folder, and of the name.
    fs::remove_file(&path).expect("remove");
    chown(path.parent().expect("a folder"), Some(STRANGER), Some(STRANGER)).expect("chown");
    for dir in [site.path(), Path::new(&site.at("run1"))] {
        fs::set_permissions(dir, Permissions::from_mode(0o755)).expect("chmod");
    }
    let squatter = as_stranger(|| UnixListener::bind(&path)).expect("it listens");
    squatter.set_nonblocking(true).expect("it does not wait");
    serve(&mut site, "false");

    let source = format!("{}:/sheen", nid(&site));
    let mnt = site.mount(1, &source, "rw");
    work(&mnt, "a", 4 * MIB);
    assert!(!tcp_to_servers(&site, 1).is_empty());
    assert!(site.log("client1").contains("belongs to user 4711"), "{}", site.log("client1"));
    let mut came = 0;
    loop {
        match squatter.accept() {
            Ok((mut stream, _)) => {
                stream.set_nonblocking(true).expect("it does not wait");
                let mut heard = Vec::new();
                match stream.read_to_end(&mut heard) {
                    Ok(_) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
                assert!(heard.is_empty(), "it is told nothing");
                came += 1;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(came > 0, "nobody tried");
    // Nor does a server use such a folder.
    site.kill("server");
    site.serve("tcp(eth0)", OPEN);
    site.wait_for("a warning", || site.log("server").contains("other users may write to"));
    drop(squatter);
}

#[test]
fn servers_that_are_killed_and_restarted_are_found_again_locally() {
    let Some(mut site) = Site::new(&[1], &[]) else { return };
    site.serve("tcp(eth0)", OPEN);
    site.wait_in_service("server");
    let source = format!("{}:/sheen", nid(&site));
    let mnt = site.mount(1, &source, "rw");
    let before = received(&site, 1, "lo");
    let files = under_load(&mut site, &mnt.clone(), |site, more| {
        for _ in 0..3 {
            site.kill("server");
            site.serve("tcp(eth0)", OPEN);
            more(site);
        }
    });
    assert!(files > 90, "{files}");
    assert_eq!(tcp_to_servers(&site, 1), Vec::<String>::new());
    let shown = site.lnetctl(1, &["peer", "show", "-v", "--nid", &nid(&site)]);
    assert_eq!(figure(&shown, "links"), figure(&shown, "local links"), "{shown}");
    // While the server was away TCP was tried, too: a few packets that were refused.
    let over_tcp = received(&site, 1, "lo") - before;
    assert!(over_tcp < MIB as u64, "{over_tcp} bytes");
    assert_eq!(sockets(&site, 1).len(), 1);
}

/// `sheen` on a host, with the registry of daemons of host 1.
fn shared(site: &Site, host: usize, args: &[&str]) -> std::process::Output {
    let mut command = site.command(host);
    command.args(args).env(RUN_DIR, site.at("run1")).output().expect("sheen runs")
}

#[test]
fn namespaces_that_share_a_folder_are_hosts_of_their_own() {
    let Some(mut site) = Site::new(&[1, 2], &[]) else { return };
    site.serve("tcp(eth0)", OPEN);
    site.wait_in_service("server");
    let source = format!("{}:/sheen", nid(&site));
    let at = site.path().join("far");
    fs::create_dir_all(&at).expect("a folder");
    let (log, before) = (format!("rw,log={}", site.at("client2.log")), received(&site, 2, "eth0"));
    let mounted = shared(&site, 2, &["mount", "-o", &log, &source, &at.display().to_string()]);
    let test = std::panic::catch_unwind(|| {
        assert!(mounted.status.success() && is_mounted(&at), "{}", text(&mounted));
        work(&at, "a", 8 * MIB);
        assert!(received(&site, 2, "eth0") - before > 8 * MIB as u64);
        let clients = site.must(1, &["lshowmount", "-e"]);
        let far = format!("{}@tcp", site.hosts.address(2));
        assert!(clients.lines().any(|client| client == far), "{clients}");
    });
    detach(&at);
    test.unwrap_or_else(|panic| std::panic::resume_unwind(panic));

    // The same NID means another server in each namespace.
    let mut pids = Vec::new();
    for host in [1, 2] {
        let (dir, mnt) = (site.at(&format!("fs{host}")), site.at(&format!("own{host}")));
        let up = ["up", &dir, "--mount", &mnt, "--listen", "127.0.0.1:7988", "--osts", "1"];
        let up = shared(&site, host, &up);
        assert!(up.status.success(), "{}", text(&up));
        fs::write(Path::new(&mnt).join(format!("of{host}")), "").expect("write");
        let pid = fs::read_to_string(format!("{dir}/run/node.pid")).expect("a pid");
        pids.push(pid.trim().parse().expect("a number"));
    }
    let seen = std::panic::catch_unwind(|| {
        [1, 2].map(|host| {
            let at = site.path().join(format!("second{host}"));
            fs::create_dir_all(&at).expect("a folder");
            let log = format!("rw,log={}", site.at(&format!("second{host}.log")));
            let at_text = at.display().to_string();
            let source = "127.0.0.1:7988@tcp:/sheen";
            let mounted = shared(&site, host, &["mount", "-o", &log, source, &at_text]);
            assert!(mounted.status.success(), "{}", text(&mounted));
            let names = fs::read_dir(&at).expect("list");
            let names: Vec<_> = names.map(|entry| entry.expect("an entry").file_name()).collect();
            let lo = tcp_lines(&site, host, "0100007F:1F34");
            detach(&at);
            (names, lo)
        })
    });
    for (host, pid) in [1, 2].into_iter().zip(pids) {
        detach(Path::new(&site.at(&format!("own{host}"))));
        kill_and_wait(pid);
    }
    let seen = seen.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    assert_eq!(seen, [1, 2].map(|host| (vec![format!("of{host}").into()], 0)), "each its own");
}

/// TCP connections of a host that stand and lead to this address.
fn tcp_lines(site: &Site, host: usize, to: &str) -> usize {
    let output = site.hosts.command(host, Path::new("cat")).arg("/proc/net/tcp").output();
    let table = String::from_utf8(output.expect("cat runs").stdout).expect("text");
    table.lines().filter(|line| line.contains(&format!(" {to} 01 "))).count()
}

#[test]
fn with_keys_both_ends_prove_them_and_a_revoked_one_is_out() {
    let Some(mut site) = Site::new(&[1], &[]) else { return };
    site.secure(&nid(&site));
    let keys = ["good", "bad"].map(|name| site.key(name, &[]));
    site.serve("tcp(eth0)", &[]);
    site.wait_in_service("server");
    let source = format!("{}:/sheen", nid(&site));
    let before = received(&site, 1, "lo");
    let [good, bad] = [0, 1].map(|n| {
        let options = format!("rw,key={}", keys[n]);
        site.mount_as(1, ["good", "bad"][n], &source, &options)
    });
    work(&good, "a", 16 * MIB);
    reads(&bad, "a", 16 * MIB);
    let within = received(&site, 1, "lo") - before;
    assert!(within < 4096, "{within} bytes went over loopback");
    let shown = site.must(1, &["lctl", "get_param", "-n", "osc.*.srpc_info"]);
    assert!(shown.contains("skpi") && shown.contains("none, within this host"), "{shown}");
    assert!(site.must(1, &["lctl", "get_param", "srpc.flavor.default"]).contains("skpi"));

    // Without a key root itself is not let in, and a key of another cluster is none.
    let none = site.path().join("none");
    fs::create_dir_all(&none).expect("a folder");
    let refused = site.try_mount(1, &source, "rw", &none);
    assert!(!refused.status.success() && text(&refused).contains("key"), "{}", text(&refused));
    let foreign = site.at("foreign");
    site.must(1, &["mkfs", "--mgs", &foreign]);
    site.must(1, &["auth", "init", &foreign, "--mgsnode", "10.9.9.9@tcp"]);
    let key = site.must(1, &["auth", "issue", &foreign, "--name", "f"]);
    let path = site.at("foreign.pem");
    fs::write(&path, key).expect("write");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("private");
    let refused = site.try_mount(1, &source, &format!("rw,key={path}"), &none);
    assert!(!refused.status.success() && !is_mounted(&none), "{}", text(&refused));

    site.must(1, &["auth", "revoke", &site.at("mgt"), "--name", "bad"]);
    let began = std::time::Instant::now();
    let ends =
        || fs::write(bad.join("b"), "x").and_then(|()| fs::read_dir(&bad).map(drop)).is_err();
    while !ends() {
        assert!(began.elapsed().as_secs() < 5, "a revoked key goes on\n{}", site.logs());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    work(&good, "c", MIB);
    let within = received(&site, 1, "lo") - before;
    assert!(within < 65_536, "{within} bytes went over loopback");
}

#[test]
fn servers_of_one_host_talk_within_it() {
    if !can_mount() {
        return;
    }
    let Some(mut site) = Site::new(&[1], &[]) else { return };
    let at = |name: &str| site.at(name);
    let (mgt, mdt, ost) = (at("mgt"), at("mdt"), at("ost"));
    site.must(1, &["mkfs", "--mgs", &mgt]);
    site.must(1, &["mkfs", "--mdt", "--index", "0", &mdt]);
    site.must(1, &["mkfs", "--ost", "--index", "0", &ost]);
    let address = site.hosts.address(1);
    let before = received(&site, 1, "lo");
    site.start(1, "server", &["serve", &mgt, &mdt, "--networks", "tcp(eth0)", "--security", "off"]);
    site.wait_in_service("server");
    let listen = format!("{address}:989");
    let more = ["serve", &ost, "--mgsnode", &nid(&site), "--listen", &listen, "--security", "off"];
    site.start(1, "oss", &more);
    site.wait_in_service("oss");
    let mnt = site.mount(1, &format!("{}:/sheen", nid(&site)), "rw");
    work(&mnt, "a", 8 * MIB);
    let within = received(&site, 1, "lo") - before;
    assert!(within < 65_536, "{within} bytes went over loopback");
    assert_eq!(sockets(&site, 1).len(), 2);
}
