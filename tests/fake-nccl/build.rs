//! Gives the library NCCL's name, by which a process finds a loaded copy, and keeps it small.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnccl.so.2");
        // Copies without some functions do not need them themselves, even when sanitized.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
        // Tests make many copies.
        println!("cargo::rustc-cdylib-link-arg=-Wl,--strip-debug");
    }
}
