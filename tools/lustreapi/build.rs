//! Gives the shared library the name by which programs that were linked with it look for it.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblustreapi.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}
