//! Programs in C and C++, compiled against the headers of the C library and linked with it.

use crate::cluster::{Cluster, RUN_DIR};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The folder with the shared library under test: that of `sheen`, or the one that was built in
/// parts beside it.
fn library_dir() -> PathBuf {
    let dir = crate::sheen().parent().expect("sheen lies in a folder").to_owned();
    let found = [dir.join("deps"), dir.clone()]
        .into_iter()
        .find(|dir| dir.join("liblustreapi.so").exists());
    found.unwrap_or_else(|| {
        panic!("{}/liblustreapi.so is not built: cargo build -p lustreapi", dir.display())
    })
}

/// Compiles `tests/c/SOURCE` as strictly as compilers can, into `dir`.
pub fn compiled(dir: &Path, source: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let libraries = dir.join("lib");
    if !libraries.exists() {
        // As in an installation: one name to link with, one to run with.
        std::fs::create_dir(&libraries).expect("a folder");
        for name in ["liblustreapi.so", "liblustreapi.so.1"] {
            std::os::unix::fs::symlink(library_dir().join("liblustreapi.so"), libraries.join(name))
                .expect("a link");
        }
    }
    let program = dir.join(source.replace('.', "-"));
    let (compiler, standard) =
        if source.ends_with(".cc") { ("c++", "-std=c++11") } else { ("cc", "-std=gnu11") };
    let output = Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-o"])
        .arg(&program)
        .arg(here.join("tests/c").join(source))
        .arg("-I")
        .arg(here.join("../../tools/lustreapi/include"))
        .arg("-L")
        .arg(&libraries)
        .args(["-llustreapi", &format!("-Wl,-rpath,{}", libraries.display())])
        .output()
        .expect("a compiler runs");
    assert!(output.status.success(), "{source}: {}", crate::process::text(&output));
    program
}

/// Compiles a program and runs it on the mounts of a cluster, which are its arguments.
pub fn run(cluster: &Cluster, source: &str) -> Output {
    run_with(cluster, source, &cluster.mounts())
}

fn run_with(cluster: &Cluster, source: &str, mounts: &[PathBuf]) -> Output {
    let program = compiled(&cluster.outside(), source);
    let mut command = Command::new(program);
    command.args(mounts).env(RUN_DIR, cluster.run_dir()).env("LC_ALL", "C").stdin(Stdio::null());
    command.output().expect("the program runs")
}

/// Standard output of the program; it must succeed and print nothing else.
pub fn prints(cluster: &Cluster, source: &str) -> String {
    prints_with(cluster, source, &cluster.mounts())
}

/// As [`prints`], with some of the mounts.
pub fn prints_with(cluster: &Cluster, source: &str, mounts: &[PathBuf]) -> String {
    let output = run_with(cluster, source, mounts);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{source}: {}",
        crate::process::text(&output)
    );
    String::from_utf8(output.stdout).expect("text")
}
