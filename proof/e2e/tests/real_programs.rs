//! Real source releases are unpacked and built in the mount, and real programs run on it. Every
//! resulting file must equal that of the same work on an ordinary file system.

use e2e::cluster::{Cluster, everywhere, on_hosts_striped};
use e2e::need_program;
use e2e::programs::{assert_same, contents, manifest, sh};
use std::path::Path;
use std::process::Command;

/// Releases from the crate registry: a C library of some 600 files with its own configure script
/// and makefiles, and a large crate with what it needs.
const CRATES: &str = r#"
[package]
name = "sources"
version = "0.1.0"
edition = "2021"

[dependencies]
rdkafka-sys = "=4.8.0"
regex-automata = "=0.4.9"

[workspace]
"#;

/// The same script in the mount and outside; every resulting file must be the same. Both are bound
/// at one path, because builds embed it.
fn same_inside_and_outside(cluster: &Cluster, name: &str, script: &str) {
    let (inside, outside) =
        (cluster.mount().join(name), cluster.mount().parent().expect("a parent").join(name));
    for dir in [&outside, &inside] {
        std::fs::create_dir_all(dir).expect("make a folder");
    }
    let at = cluster.outside().join("at");
    std::fs::create_dir_all(&at).expect("make a folder");
    for dir in [&outside, &inside] {
        // The new namespace has a copy of every mount of the host. One of another test would keep
        // that test's mount alive after it was unmounted.
        let bound = format!(
            "mount --bind {dir} {at}; \
             awk '$3 ~ /^fuse/ && $2 != \"{at}\" {{ print $2 }}' /proc/mounts | xargs -r -n 1 umount -l; \
             cd {at}; {script}",
            dir = dir.display(),
            at = at.display()
        );
        let output =
            Command::new("unshare").args(["-m", "bash", "-euo", "pipefail", "-c", &bound]).output();
        let output = output.expect("unshare runs");
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let end = |text: &str| {
            text.lines()
                .rev()
                .take(25)
                .map(str::to_owned)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert!(
            output.status.success(),
            "in {}: {}\n{}\n{}",
            dir.display(),
            output.status,
            end(&out),
            end(&err)
        );
    }
    assert_same(name, &contents(&outside), &contents(&inside));
}

fn vendored(cluster: &Cluster) -> std::path::PathBuf {
    let dir = cluster.outside().join("sources");
    std::fs::create_dir_all(dir.join("src")).expect("make a folder");
    std::fs::write(dir.join("Cargo.toml"), CRATES).expect("write");
    std::fs::write(dir.join("src/lib.rs"), "").expect("write");
    sh(&dir, "cargo vendor -q vendor > /dev/null");
    dir.join("vendor")
}

#[test]
fn a_c_library_builds_to_the_same_bytes_and_runs() {
    if need_program("gcc").is_none() {
        return;
    }
    on_hosts_striped("1", |cluster| {
        let source = vendored(cluster).join("rdkafka-sys/librdkafka");
        // The log and cache of configure name temporary files; nothing else may differ.
        let script = format!(
            "cp -a {}/. . && ./configure --disable-optimization --disable-ssl --disable-gssapi --disable-zstd \
             --disable-lz4-ext --disable-curl --disable-syslog > /dev/null && make -j4 -C src lib > /dev/null 2>&1 && \
             gcc -Isrc -o example examples/rdkafka_example.c -Lsrc -lrdkafka -Wl,-rpath,$PWD/src && \
             test $(./example -X dump | wc -l) -gt 50 && rm -rf config.log* config.cache _mklove_tmp*",
            source.display()
        );
        same_inside_and_outside(cluster, "librdkafka", &script);
    });
}

#[test]
fn a_large_crate_builds_and_runs() {
    if !e2e::long() {
        eprintln!("skipped: without E2E_LONG=1 the C library is built only");
        return;
    }
    on_hosts_striped("1", |cluster| {
        let vendor = vendored(cluster);
        let script = format!(
            r#"mkdir -p src .cargo && cp -a {} vendor
            printf '[package]\nname="find"\nversion="0.1.0"\nedition="2021"\n[dependencies]\nregex-automata="=0.4.9"\n[workspace]\n' > Cargo.toml
            printf '[source.crates-io]\nreplace-with="vendored"\n[source.vendored]\ndirectory="vendor"\n' > .cargo/config.toml
            printf 'fn main() {{ let re = regex_automata::meta::Regex::new("[a-z]+[0-9]").unwrap(); println!("{{:?}}", re.find("  abc7 ").map(|m| m.range())); }}\n' > src/main.rs
            CARGO_TARGET_DIR=out cargo build -q --offline
            ./out/debug/find > answer && grep -q '2..6' answer
            cp out/debug/find built && rm -rf out"#,
            vendor.display()
        );
        same_inside_and_outside(cluster, "crate", &script);
    });
}

#[test]
fn a_python_sdist_builds_installs_and_runs() {
    if need_program("python3").is_none() {
        return;
    }
    on_hosts_striped("1", |cluster| {
        let outside = cluster.outside();
        sh(
            &outside,
            "python3 -m venv ve && ve/bin/pip install -q setuptools wheel && ve/bin/pip download -q --no-build-isolation --no-binary :all: --no-deps simplejson==3.19.3 -d sdist",
        );
        let script = format!(
            "tar xzf {0}/sdist/simplejson-3.19.3.tar.gz && cd simplejson-3.19.3 && export SOURCE_DATE_EPOCH=1700000000 && \
             {0}/ve/bin/pip install -q --no-compile --no-build-isolation --no-deps --target ../installed . && cd .. && \
             PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=installed {0}/ve/bin/python -c 'import simplejson; assert simplejson.loads(\"[1]\") == [1]; import simplejson._speedups' && \
             rm -f installed/*.dist-info/direct_url.json installed/*.dist-info/RECORD",
            outside.display()
        );
        same_inside_and_outside(cluster, "sdist", &script);
    });
}

#[test]
fn git_works_in_the_mount() {
    if need_program("git").is_none() {
        return;
    }
    everywhere(|cluster| {
        let outside = cluster.outside();
        sh(
            &outside,
            "git init -q repo && cd repo && git config user.name T && git config user.email t@example.org
             for i in $(seq 200); do mkdir -p d$((i % 13)); seq $i $((i + 500)) > d$((i % 13))/f$i; done
             git add . && git commit -q -m one && for i in $(seq 1 5 200); do echo more >> d$((i % 13))/f$i; done && git commit -qa -m two",
        );
        let mount = cluster.mount();
        sh(&mount, &format!("git clone -q {}/repo clone", outside.display()));
        let clean = sh(&mount.join("clone"), "git status --porcelain");
        assert_eq!(clean, "", "a fresh clone is clean");
        sh(
            &mount.join("clone"),
            "git config user.name T; git config user.email t@example.org; echo x > d1/new; git mv d2 moved; git add -A; git commit -q -m three; git gc -q; git fsck --strict; git checkout -q HEAD~2; git checkout -q -",
        );
        let log = sh(&mount.join("clone"), "git log --oneline | wc -l");
        assert_eq!(log.trim(), "3");
    });
}

#[test]
fn sqlite_keeps_its_promises_with_concurrent_writers() {
    if need_program("sqlite3").is_none() {
        return;
    }
    everywhere(|cluster| {
        for mode in ["delete", "wal"] {
            let script = format!(
                "mkdir {mode} && cd {mode} && sqlite3 db 'PRAGMA journal_mode={mode}; CREATE TABLE t(who INT, n INT);' > /dev/null
                 for w in 1 2 3 4; do ( for n in $(seq 50); do echo \"INSERT INTO t VALUES($w,$n);\"; done | sqlite3 -cmd '.timeout 60000' db ) & done; wait
                 sqlite3 db 'SELECT count(*), count(DISTINCT who) FROM t; PRAGMA integrity_check;'"
            );
            assert_eq!(sh(&cluster.mount(), &script).trim(), "200|4\nok", "journal mode {mode}");
        }
    });
}

#[test]
fn rsync_and_tar_carry_everything_both_ways() {
    if need_program("rsync").is_none() {
        return;
    }
    if need_program("setfacl").is_none() {
        return;
    }
    everywhere(|cluster| {
        let (outside, mount) = (cluster.outside(), cluster.mount());
        sh(
            &outside,
            "mkdir -p tree/a/b && cd tree && echo hello > a/file && ln a/file a/b/hard && ln -s ../file a/b/soft && mkfifo a/fifo
             head -c 3000000 /dev/urandom > big && truncate -s 10M sparse && printf x | dd of=sparse bs=1 seek=5000000 conv=notrunc status=none
             setfattr -n user.colour -v blue a/file && setfacl -m u:1234:rw a/file && setfacl -d -m g:77:rx a && chmod 4711 big && chown 12:34 a/b && mknod a/null c 1 3
             touch -d '2001-02-03 04:05:06.789' a/file a/fifo a/null && touch -h -d '2002-03-04' a/b/soft && for i in $(seq 300); do echo $i > a/b/n$i; done",
        );
        let everything = |dir: &Path| {
            manifest(dir)
                + &sh(dir, "getfattr -dhR -m - . 2>/dev/null | sort; getfacl -Rn . | sort")
        };
        let original = everything(&outside.join("tree"));
        sh(&mount, &format!("rsync -aHAX {}/tree/ rsynced/", outside.display()));
        assert_same(
            "outside and rsync -aHAX into the mount",
            &original,
            &everything(&mount.join("rsynced")),
        );
        sh(&outside, &format!("rsync -aHAX {}/rsynced/ back/", mount.display()));
        assert_same(
            "outside and rsync -aHAX out of the mount",
            &original,
            &everything(&outside.join("back")),
        );
        let again = sh(&mount, &format!("rsync -aHAXi {}/tree/ rsynced/", outside.display()));
        assert_eq!(again, "", "a second rsync finds nothing to do");
        sh(
            &mount,
            &format!(
                "tar --xattrs --acls -C {}/tree -cf t.tar . && mkdir tarred && tar --xattrs --xattrs-include='*' --acls -C tarred -xpf t.tar",
                outside.display()
            ),
        );
        assert_same("outside and tar", &original, &everything(&mount.join("tarred")));
    });
}
