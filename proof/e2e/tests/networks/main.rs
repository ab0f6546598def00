//! Several networks: a client takes the NID of a server that is on its own network, and goes
//! through routers to servers on others.

mod routers;

use e2e::process::text;
use e2e::site::{Site, client_file, mgs, routing, start_router};
use e2e::tap::Tap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

/// What must not be seen.
const MARKER: &str = "mArKeR-51c0ffee";

#[test]
fn a_client_takes_the_nid_on_its_own_network() {
    let Some(mut site) = Site::new(&[1, 2], &[1, 3]) else { return };
    site.serve("tcp(eth0),tcp1(eth1)", &["--security", "off"]);
    site.wait_in_service("server");
    let (first, second) = (site.hosts.address(1), site.hosts.second_address(1));
    let source = format!("{first}@tcp,{second}@tcp1:/sheen");
    let shown = site.lnetctl(1, &["net", "show", "-v"]);
    for (net, nid) in [("tcp", format!("{first}@tcp")), ("tcp1", format!("{second}@tcp1"))] {
        assert!(shown.contains(&format!("net type: {net}\n")), "{shown}");
        assert!(shown.contains(&format!("- nid: {nid}\n")), "{shown}");
    }

    // A client on neither network says so at once.
    let at = site.path().join("nowhere");
    let output = site.try_mount(3, &source, "network=tcp9", &at);
    let said = text(&output);
    assert!(!output.status.success() && said.contains("not on the network"), "{said}");

    let one = site.mount(2, &source, "network=tcp");
    let other = site.mount(3, &source, "network=tcp1");
    let data: Vec<u8> = (0..4 << 20).map(|n: u32| (n % 251) as u8).collect();
    fs::write(one.join("f"), &data).expect("write");
    assert!(fs::read(other.join("f")).expect("read") == data);
    for (host, net) in [(2, "@tcp"), (3, "@tcp1")] {
        let peers = site.lnetctl(host, &["peer", "show"]);
        let nids: Vec<&str> =
            peers.lines().filter_map(|line| line.trim().strip_prefix("- nid: ")).collect();
        assert!(!nids.is_empty() && nids.iter().all(|nid| nid.ends_with(net)), "{host}: {peers}");
    }
    let mut lshowmount = site.command(1);
    let output = lshowmount.args(["lshowmount", "-e"]).output().expect("sheen runs");
    let clients = String::from_utf8_lossy(&output.stdout).into_owned();
    for client in
        [format!("{}@tcp", site.hosts.address(2)), format!("{}@tcp1", site.hosts.second_address(3))]
    {
        assert!(clients.lines().any(|line| line == client), "{client}: {clients}");
    }

    // The server leaves the network of the second client, and joins it again.
    site.lnetctl(1, &["net", "del", "--net", "tcp1"]);
    assert!(!site.lnetctl(1, &["net", "show"]).contains("tcp1"));
    site.lnetctl(1, &["net", "add", "--net", "tcp1", "--if", "eth1"]);
    fs::write(other.join("g"), b"after").expect("write");
    assert_eq!(fs::read(one.join("g")).expect("read"), b"after");
}

/// Clients that the MDT lists.
fn clients(site: &Site) -> Vec<String> {
    let shown = site.must(1, &["lctl", "get_param", "-N", "mdt.*.exports.*.uuid"]);
    let nid = |line: &str| Some(line.split_once(".exports.")?.1.strip_suffix(".uuid")?.to_owned());
    let listed: Vec<String> = shown.lines().filter_map(nid).collect();
    let mounted = site.must(1, &["lshowmount", "-e"]);
    assert!(listed.iter().all(|nid| mounted.lines().any(|line| line == nid)), "{mounted}");
    listed
}

/// A new file of root: whose it is, or why it cannot be made.
fn made_by_root(mnt: &Path, name: &str) -> Result<u32, i32> {
    use std::os::unix::fs::MetadataExt;
    let path = mnt.join(name);
    fs::write(&path, "x").map_err(|error| error.raw_os_error().expect("an errno"))?;
    Ok(fs::metadata(path).expect("stat").uid())
}

#[test]
fn a_server_knows_clients_behind_routers_by_their_own_nids() {
    let Some(mut site) = Site::new(&[2, 3, 4, 5], &[1, 2, 3]) else { return };
    let router = format!("{}@tcp", site.hosts.second_address(2));
    let routes = format!("tcp1 {router}");
    site.serve("tcp(eth1)", &["--security", "off", "--routes", &routes]);
    site.wait_in_service("server");
    for host in [2, 3] {
        start_router(&mut site, host, &["--security", "off"]);
        site.wait_in_service(&format!("router{host}"));
    }
    let [spared, other] = [4, 5].map(|host| format!("{}@tcp1", site.hosts.address(host)));
    let source = format!("{}:/sheen", mgs(&site));
    let file = client_file(&site, &[2]);
    let by_first = site.mount(4, &source, &format!("config={file}"));
    assert!(clients(&site).contains(&spared), "{:?}", clients(&site));
    assert!(!clients(&site).contains(&router), "{:?}", clients(&site));

    // The server has no route by the second router: clients behind it are that router.
    let file = client_file(&site, &[3]);
    let by_second = site.mount(5, &source, &format!("config={file}"));
    let unknown = format!("{}@tcp", site.hosts.second_address(3));
    assert!(clients(&site).contains(&unknown) && !clients(&site).contains(&other));

    fs::set_permissions(&by_first, Permissions::from_mode(0o777)).expect("chmod");
    site.must(1, &["lctl", "set_param", "-P", "mdt.*.root_squash=99:99"]);
    let exempt = format!("mdt.*.nosquash_nids={spared}");
    site.must(1, &["lctl", "set_param", "-P", &exempt]);
    site.wait_for("root of one client is squashed", || {
        made_by_root(&by_second, &format!("s{:?}", Instant::now())) == Ok(99)
    });
    site.wait_for("root of the other one is not", || {
        made_by_root(&by_first, &format!("r{:?}", Instant::now())) == Ok(0)
    });
    // Known to the server, the second router stands for its client, too.
    let gateway = ["route", "add", "--net", "tcp1", "--gateway", &unknown];
    site.lnetctl(1, &gateway);
    site.kill("router3");
    start_router(&mut site, 3, &["--security", "off"]);
    site.wait_for("the client comes back", || clients(&site).contains(&other));
    let evict = format!("mdt.*.evict_client=nid:{other}");
    site.must(1, &["lctl", "set_param", &evict]);
    assert_eq!(made_by_root(&by_first, "unharmed"), Ok(0));
}

#[test]
fn a_key_says_which_nids_its_owner_may_have_behind_routers() {
    let Some(mut site) = Site::new(&[2, 4, 5], &[1, 2]) else { return };
    let nid = mgs(&site);
    site.secure(&nid);
    let own = |host: usize| format!("{}@tcp1", site.hosts.address(host));
    let of_router = site.key("router", &[]);
    // The second one bears the NID of the first.
    let (right, wrong) =
        (site.key("client4", &["--nid", &own(4)]), site.key("client5", &["--nid", &own(4)]));
    let [first, second] = [4, 5].map(own);
    // A route does not make a server believe the router, where there are keys.
    let router = format!("{}@tcp", site.hosts.second_address(2));
    site.serve("tcp(eth1)", &["--routes", &format!("tcp1 {router}")]);
    site.wait_in_service("server");
    start_router(&mut site, 2, &["--key", &of_router]);
    site.wait_in_service("router2");
    let file = client_file(&site, &[2]);
    let source = format!("{nid}:/sheen");
    let mnt = site.mount(4, &source, &format!("config={file},key={right}"));
    assert!(clients(&site).contains(&first), "{:?}", clients(&site));
    assert!(!clients(&site).contains(&router), "{:?}", clients(&site));
    site.mount(5, &source, &format!("config={file},key={wrong}"));
    assert!(clients(&site).contains(&router), "{:?}", clients(&site));
    assert!(!clients(&site).contains(&second), "{:?}", clients(&site));
    let listed = site.must(1, &["auth", "list", &site.at("mgt")]);
    assert!(listed.contains(&first), "{listed}");
    flavors_are_those_of_the_keys(&site);
    // What seals the sessions of a mount, and until when. One with an OST is made for its data.
    fs::write(mnt.join("data"), vec![7; 4 << 20]).expect("write");
    e2e::programs::sh(&mnt, "sync data");
    for device in ["mdc", "osc", "mgc"] {
        let shown = |what| site.must(4, &["lctl", "get_param", &format!("{device}.*.{what}")]);
        let info = shown("srpc_info");
        for line in ["rpc flavor:     skpi\n", "peer:           server ", "cipher:         TLS13_"]
        {
            assert!(info.contains(line), "{device}: {info}");
        }
        let contexts = shown("srpc_contexts");
        let left = contexts.split_once("(+").and_then(|(_, rest)| rest.split_once(')'));
        let left: u64 = left.and_then(|(seconds, _)| seconds.parse().ok()).expect("a time");
        // The key of the server is good for a year.
        assert!((300 * 86_400..=366 * 86_400).contains(&left), "{device}: {contexts}");
    }
}

/// Security flavours in Lustre's words, on a cluster with keys.
fn flavors_are_those_of_the_keys(site: &Site) {
    let lctl = |args: &[&str]| site.must(1, &[&["lctl"], args].concat());
    assert_eq!(lctl(&["get_param", "-n", "srpc.flavor.default"]), "skpi\n");
    lctl(&["conf_param", "sheen.srpc.flavor.default=skpi"]);
    lctl(&["set_param", "-P", "srpc.flavor.tcp1.cli2mdt=ska"]);
    let kept = lctl(&["get_param", "-P", "srpc.flavor"]);
    assert_eq!(kept, "all srpc.flavor.default=skpi\nall srpc.flavor.tcp1.cli2mdt=ska\n");
    for (flavor, errno, why) in
        [("null", 95, "must show one"), ("krb5p", 95, "no Kerberos"), ("tls", 22, "is no flavour")]
    {
        let setting = format!("sheen.srpc.flavor.default={flavor}");
        let mut command = site.command(1);
        let output = command.args(["lctl", "conf_param", &setting]).output().expect("sheen runs");
        let said = text(&output);
        assert!(output.status.code() == Some(errno) && said.contains(why), "{flavor}: {said}");
    }
}

#[test]
fn a_check_reaches_servers_behind_routers() {
    let Some(mut site) = Site::new(&[2, 3, 4], &[1, 2, 3]) else { return };
    let nid = mgs(&site);
    let [mgt, mdt, ost, far] = ["mgt", "mdt", "ost0", "far"].map(|name| site.at(name));
    for (dir, kind) in [(&mgt, "--mgs"), (&mdt, "--mdt"), (&ost, "--ost")] {
        site.must(1, &["mkfs", kind, dir]);
    }
    site.must(4, &["mkfs", "--ost", "--index", "1", "--mgsnode", &nid, &far]);
    let open = ["--security", "off"];
    let [to_far, to_near] = [
        format!("tcp1 {}@tcp", site.hosts.second_address(2)),
        format!("tcp {}@tcp1", site.hosts.address(2)),
    ];
    let near = ["serve", &mgt, &mdt, &ost, "--networks", "tcp(eth1)", "--routes", &to_far];
    site.start(1, "server", &[&near[..], &open].concat());
    site.wait_in_service("server");
    start_router(&mut site, 2, &open);
    site.wait_in_service("router2");
    let behind = ["serve", &far, "--networks", "tcp1(eth0)", "--routes", &to_near];
    site.start(4, "far", &[&behind[..], &open].concat());
    site.wait_in_service("far");
    let file = site.at("client.toml");
    fs::write(&file, "networks = \"tcp(eth1),tcp1(eth0)\"\n").expect("write");
    let mnt = site.mount(3, &format!("{nid}:/sheen"), &format!("config={file}"));
    site.wait_for("both OSTs are used", || {
        let shown = site.must(3, &["lctl", "get_param", "-n", "lov.*.numobd"]);
        shown.trim() == "2"
    });
    for n in 0..8 {
        fs::write(mnt.join(format!("f{n}")), vec![n; 100_000]).expect("write");
    }
    e2e::programs::sh(&mnt, "sync f*");
    // Each server finds the other one's targets, and has looked at them.
    for host in [1, 4] {
        let shown = site.must(host, &["fsck", &nid]);
        assert!(shown.contains("clean"), "{host}: {shown}");
    }
    site.kill("router2");
    let mut command = site.command(1);
    let output = command.args(["fsck", &nid]).output().expect("sheen runs");
    let said = text(&output);
    assert!(output.status.code() == Some(8) && said.contains("OST0001"), "{said}");
}

#[test]
fn a_token_leads_through_a_router() {
    let Some(mut site) = Site::new(&[2, 4], &[1, 2]) else { return };
    let nid = format!("{}@o2ib3", site.hosts.second_address(1));
    site.secure(&nid);
    let of_router = site.key("router", &[]);
    site.serve("o2ib3(eth1)", &[]);
    site.wait_in_service("server");
    let networks = ["router", "--networks", "tcp1(eth0),o2ib3(eth1)", "--mgsnode", &nid];
    site.start(2, "router2", &[&networks[..], &["--key", &of_router]].concat());
    site.wait_in_service("router2");
    let token = site.must(1, &["auth", "token", &site.at("mgt"), "--nid", "*@tcp1"]);
    let join = |site: &Site, file: &str| {
        let mut command = site.command(4);
        command.args(["auth", "join", token.trim(), "--name", "node4", "--config", file]);
        command.env("SHEEN_KEYS_DIR", site.at("keys4"));
        command.output().expect("sheen runs")
    };
    let alone = site.at("alone.toml");
    fs::write(&alone, "networks = \"tcp1(eth0)\"\n").expect("write");
    let output = join(&site, &alone);
    assert!(!output.status.success() && text(&output).contains("no route"), "{}", text(&output));
    let file = site.at("client.toml");
    let gateway = site.hosts.address(2);
    let routes = format!("networks = \"tcp1(eth0)\"\nroutes = \"o2ib3 {gateway}@tcp1\"\n");
    fs::write(&file, routes).expect("write");
    let output = join(&site, &file);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains(&nid), "{}", text(&output));
    let key = fs::read_dir(site.at("keys4")).expect("a key").next().expect("one").expect("it");
    let options = format!("config={file},key={}", key.path().display());
    site.mount(4, &format!("{nid}:/sheen"), &options);
    let seen = format!("{}@tcp1", site.hosts.address(4));
    assert!(clients(&site).contains(&seen), "{:?}", clients(&site));
}

#[test]
fn what_passes_a_router_is_sealed_from_end_to_end() {
    let Some(mut site) = Site::new(&[2, 4], &[1, 2]) else { return };
    // The keys are made before the servers run.
    let nid = mgs(&site);
    site.secure(&nid);
    let (of_router, of_client) = (site.key("router", &[]), site.key("client", &[]));
    site.serve("tcp(eth1)", &[]);
    site.wait_in_service("server");
    start_router(&mut site, 2, &["--key", &of_router]);
    site.wait_in_service("router2");
    let taps = [site.hosts.interface(4), site.hosts.second_interface(1)]
        .map(|interface| Tap::on(&interface).expect("a tap"));
    let file = client_file(&site, &[2]);
    let source = format!("{nid}:/sheen");
    let mnt = site.mount(4, &source, &format!("config={file},key={of_client}"));
    let path = mnt.join(format!("{MARKER}-name"));
    fs::write(&path, MARKER.repeat(1 << 17)).expect("write");
    e2e::programs::sh(&mnt, "sync *");
    assert!(routing(&site, 2, "route_length") > 1 << 20);
    for tap in taps {
        let heard = tap.heard();
        assert!(heard.len() > 1 << 20, "the tap heard {} bytes", heard.len());
        let marker = MARKER.as_bytes();
        assert!(!heard.windows(marker.len()).any(|bytes| bytes == marker), "in the clear");
    }
    // A client without a key comes no further for the router.
    let at = site.path().join("nokey");
    let output = site.try_mount(4, &source, &format!("config={file}"), &at);
    assert!(!output.status.success() && text(&output).contains("key"), "{}", text(&output));
}
