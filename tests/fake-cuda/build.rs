//! Gives the library the driver's name, by which a process finds a loaded copy, and keeps it small.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
        println!("cargo::rustc-cdylib-link-arg=-Wl,--strip-debug");
    }
}
