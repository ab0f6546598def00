//! The header and the library agree: every prototype is defined and nothing else is exported,
//! structures have the sizes of the interface, and strict C and C++ compilers accept it all.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn include_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// Names that are declared and not defined in the header.
fn prototypes() -> BTreeSet<String> {
    let text = std::fs::read_to_string(include_dir().join("lustre/lustreapi.h")).unwrap();
    let name = |at: usize, _: &str| {
        let before = text[..at].chars().next_back();
        let end = text[at..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap() + at;
        let call = text[end..].starts_with('(') && before.is_some_and(|c| c == ' ' || c == '*');
        let line = &text[text[..at].rfind('\n').map_or(0, |n| n + 1)..];
        // Definitions and comments are none; bodies are indented.
        let declared = !line.starts_with("static") && !line.starts_with([' ', '\t', '/', '#']);
        (call && declared).then(|| text[at..end].to_owned())
    };
    text.match_indices("llapi_").filter_map(|(at, word)| name(at, word)).collect()
}

/// A file that was built beside this test.
fn library(name: &str) -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let found = [deps.join(name), deps.with_file_name(name)].into_iter().find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no {name} in {}", deps.display()))
}

/// Names that the shared library exports.
fn exports() -> BTreeSet<String> {
    let output = run(Command::new("nm")
        .args(["-D", "--defined-only", "--format=just-symbols"])
        .arg(library("liblustreapi.so")));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn what_is_declared_is_exported_and_nothing_else() {
    let (declared, exported) = (prototypes(), exports());
    assert!(declared.len() > 100, "{declared:?}");
    let missing: Vec<_> = declared.difference(&exported).collect();
    let strange: Vec<_> = exported.difference(&declared).collect();
    assert!(
        missing.is_empty() && strange.is_empty(),
        "not defined: {missing:?}\nnot declared: {strange:?}"
    );
}

#[test]
fn strict_compilers_take_the_headers() {
    let dir = tempfile::tempdir().unwrap();
    let headers = [
        "lustre/lustreapi.h",
        "lustre/liblustreapi.h",
        "lustre/lustre_user.h",
        "linux/lustre/lustre_idl.h",
        "libcfs/util/param.h",
    ];
    for (compiler, language, standards) in
        [("cc", "c", ["c99", "gnu11", "c17"]), ("c++", "c++", ["c++11", "gnu++14", "c++17"])]
    {
        for (standard, header) in standards.iter().flat_map(|s| headers.iter().map(move |h| (s, h)))
        {
            let source = dir.path().join("one");
            std::fs::write(&source, format!("#include <{header}>\n#include <{header}>\n")).unwrap();
            let mut command = Command::new(compiler);
            command.args([
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pedantic",
                "-fsyntax-only",
                "-x",
                language,
            ]);
            run(command.arg(format!("-std={standard}")).arg("-I").arg(include_dir()).arg(&source));
        }
    }
}

#[test]
fn no_function_crashes_where_it_is_given_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("nothing.c"), dir.path().join("nothing"));
    // NULL for each pointer, 0 for each number: in a process of its own, which must come to its
    // end.
    let mut text = "#include <lustre/lustreapi.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
        typedef long (*any)(long, long, long, long, long, long, long, long);\n\
        static int crashes(const char *name, any function)\n{\n\
        \tint status;\n\tpid_t child = fork();\n\n\
        \tif (child == 0) {\n\t\tfunction(0, 0, 0, 0, 0, 0, 0, 0);\n\t\t_exit(0);\n\t}\n\
        \twaitpid(child, &status, 0);\n\
        \tif (!WIFEXITED(status))\n\t\tfprintf(stderr, \"%s\\n\", name);\n\
        \treturn !WIFEXITED(status);\n}\n\
        int main(void)\n{\n\tint crashed = 0;\n\n"
        .to_owned();
    for name in prototypes() {
        text.push_str(&format!("\tcrashed += crashes(\"{name}\", (any)(void *){name});\n"));
    }
    text.push_str("\treturn crashed != 0;\n}\n");
    std::fs::write(&source, text).unwrap();
    let mut command = Command::new("cc");
    command
        .arg("-I")
        .arg(include_dir())
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .arg(library("liblustreapi.a"));
    run(command.args(["-lpthread", "-ldl", "-lm"]));
    run(Command::new(program).stdin(std::process::Stdio::null()));
}

#[test]
fn the_static_library_links_without_more() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("one.c"), dir.path().join("one"));
    let text = "#include <lustre/lustreapi.h>\nint main(void) { return llapi_path2fid(\"/\", NULL) == -25 ? 0 : 1; }\n";
    std::fs::write(&source, text).unwrap();
    let mut command = Command::new("cc");
    command
        .arg("-I")
        .arg(include_dir())
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .arg(library("liblustreapi.a"));
    run(command.args(["-lpthread", "-ldl", "-lm"]));
    run(&mut Command::new(program));
}

/// Sizes and places of fields, as Lustre's user interface has them.
const SIZES: &str = r#"
#include <stddef.h>
#include <lustre/lustreapi.h>
#define SAME(a, b) _Static_assert((a) == (b), #a)
SAME(sizeof(struct lu_fid), 16);
SAME(sizeof(struct ost_id), 16);
SAME(sizeof(struct lov_user_ost_data_v1), 24);
SAME(sizeof(struct lov_user_md_v1), 32);
SAME(offsetof(struct lov_user_md_v1, lmm_stripe_size), 24);
SAME(offsetof(struct lov_user_md_v1, lmm_layout_gen), 30);
SAME(sizeof(struct lov_user_md_v3), 48);
SAME(offsetof(struct lov_user_md_v3, lmm_pool_name), 32);
SAME(sizeof(struct lov_comp_md_v1), 32);
SAME(offsetof(struct lov_comp_md_v1, lcm_entry_count), 14);
SAME(sizeof(struct lov_comp_md_entry_v1), 48);
SAME(offsetof(struct lov_comp_md_entry_v1, lcme_offset), 24);
SAME(sizeof(struct obd_statfs), 144);
SAME(offsetof(struct obd_statfs, os_state), 104);
SAME(sizeof(struct obd_uuid), 40);
SAME(sizeof(struct llapi_lu_ladvise), 32);
SAME(sizeof(struct ll_ioc_lease), 12);
SAME(sizeof(struct fid_array), 16);
SAME(offsetof(struct llapi_stripe_param, lsp_osts), 2 * sizeof(void *) + 16);
SAME(sizeof(struct hsm_extent), 16);
SAME(LLAPI_LAYOUT_DEFAULT, 0x1000000000000002ULL);
SAME(LSE_OTHER, 7);
"#;

#[test]
fn structures_have_their_sizes_in_c() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("sizes.c");
    std::fs::write(&source, SIZES).unwrap();
    run(Command::new("cc")
        .args(["-std=c11", "-fsyntax-only", "-I"])
        .arg(include_dir())
        .arg(&source));
}
