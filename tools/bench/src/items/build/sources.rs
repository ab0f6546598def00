//! A C program of several hundred files, made from a seed. It has sources that include headers that
//! include headers, a Makefile with dependencies, and one static library for each module. The
//! program prints a number that can be checked.

use crate::failure::BenchError;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Sources of one module.
const MODULE: usize = 20;
/// Headers that each source includes, besides its own.
const INCLUDES: usize = 12;
/// Functions of one source.
const FUNCTIONS: u64 = 24;

/// A tree to be written.
#[derive(Clone, Copy, Debug)]
pub struct Sources {
    /// C files, and as many headers.
    pub files: usize,
    /// Of the generator.
    pub seed: u64,
}

impl Sources {
    /// Folders with sources, `module0` and so on; each is built to a library `lib.a`.
    pub fn modules(&self) -> usize {
        self.files.div_ceil(MODULE)
    }

    fn of_module(&self, module: usize) -> std::ops::Range<usize> {
        module * MODULE..((module + 1) * MODULE).min(self.files)
    }

    /// Files of the tree by path, the same for the same seed.
    pub fn files(&self) -> Vec<(String, String)> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut all = Vec::with_capacity(2 * self.files + 2);
        for n in 0..self.files {
            all.push((format!("include/part{n}.h"), self.header(n, &mut random)));
        }
        for n in 0..self.files {
            all.push((format!("module{}/part{n}.c", n / MODULE), self.source(n, &mut random)));
        }
        all.push(("main.c".to_owned(), self.main()));
        all.push(("Makefile".to_owned(), self.makefile()));
        all
    }

    /// Headers include only ones with smaller numbers, so there is no circle.
    fn header(&self, n: usize, random: &mut fastrand::Rng) -> String {
        let mut text = format!("#ifndef PART{n}_H\n#define PART{n}_H\n");
        for _ in 0..3.min(n) {
            let other = random.usize(0..n);
            let _ = writeln!(text, "#include \"part{other}.h\"");
        }
        let _ = writeln!(
            text,
            "struct part{n} {{\n    long sum;\n    int counts[{}];\n}};",
            random.u32(4..64)
        );
        for f in 0..FUNCTIONS {
            let _ = writeln!(
                text,
                "/* Number {f} of part {n}: adds what the seed of the tree says. */"
            );
            let _ = writeln!(text, "long part{n}_f{f}(struct part{n} *part, long value);");
        }
        text + "#endif\n"
    }

    fn source(&self, n: usize, random: &mut fastrand::Rng) -> String {
        let mut text = format!("#include \"part{n}.h\"\n#include <stdio.h>\n#include <string.h>\n");
        for _ in 0..INCLUDES {
            let _ = writeln!(text, "#include \"part{}.h\"", random.usize(0..self.files));
        }
        for f in 0..FUNCTIONS {
            let (a, b) = (random.u32(1..1000), random.u32(2..30));
            let _ = writeln!(
                text,
                "\nlong part{n}_f{f}(struct part{n} *part, long value)\n{{\n    char text[64];\n    for (int i = 0; i < {b}; i++) {{\n\
                 \x20       part->counts[i % 4] += (int)(value ^ i);\n        part->sum += value % {a} + i;\n    }}\n\
                 \x20   snprintf(text, sizeof text, \"part {n}, number {f}: %ld\", part->sum);\n\
                 \x20   return part->sum + (long)strlen(text) * {a};\n}}"
            );
        }
        let _ = writeln!(
            text,
            "\nlong part{n}(void)\n{{\n    struct part{n} part = {{0}};\n    long sum = {n};"
        );
        for f in 0..FUNCTIONS {
            let _ = writeln!(text, "    sum += part{n}_f{f}(&part, sum);");
        }
        text + "    return sum & 0xffff;\n}\n"
    }

    fn main(&self) -> String {
        let mut text = "#include <stdio.h>\n".to_owned();
        for n in 0..self.files {
            let _ = writeln!(text, "long part{n}(void);");
        }
        text += "\nint main(void)\n{\n    long sum = 0;\n";
        for n in 0..self.files {
            let _ = writeln!(text, "    sum += part{n}();");
        }
        text + "    printf(\"%ld\\n\", sum);\n    return 0;\n}\n"
    }

    fn makefile(&self) -> String {
        // Objects may be elsewhere: there, make -f SRC/Makefile SRC=SRC.
        let mut text =
            "CC ?= cc\nSRC ?= .\nvpath %.c $(SRC)\nCFLAGS = -O0 -g -I$(SRC)/include -MMD -MP\nLIBS =".to_owned();
        for module in 0..self.modules() {
            let _ = write!(text, " module{module}/lib.a");
        }
        text += "\n\nprogram: main.o $(LIBS)\n\t$(CC) -o $@ main.o -Wl,--start-group $(LIBS) -Wl,--end-group\n\n";
        text += "%.o: %.c\n\t$(CC) $(CFLAGS) -c -o $@ $<\n\n";
        for module in 0..self.modules() {
            let objects: Vec<String> =
                self.of_module(module).map(|n| format!("module{module}/part{n}.o")).collect();
            let objects = objects.join(" ");
            let _ = writeln!(text, "module{module}/lib.a: {objects}\n\trm -f $@\n\tar rc $@ $^\n");
        }
        text + "-include $(wildcard *.d */*.d)\n"
    }

    /// Writes the tree.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), BenchError> {
        for (name, text) in self.files() {
            let path = dir.join(name);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(BenchError::at("make", folder))?;
            }
            fs::write(&path, text).map_err(BenchError::at("write", &path))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_tree() {
        let sources = Sources { files: 45, seed: 3 };
        assert_eq!(sources.files(), sources.files());
        assert_ne!(sources.files(), Sources { seed: 4, ..sources }.files());
        let names: Vec<String> = sources.files().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 2 * 45 + 2);
        assert!(names.contains(&"module2/part44.c".to_owned()), "{names:?}");
    }

    #[test]
    fn headers_run_in_no_circle() {
        for (name, text) in (Sources { files: 30, seed: 1 }).files() {
            let Some(own) = name.strip_prefix("include/part").and_then(|n| n.strip_suffix(".h"))
            else {
                continue;
            };
            let own: usize = own.parse().unwrap();
            for line in text.lines().filter(|line| line.starts_with("#include")) {
                let other: usize = line
                    .trim_start_matches("#include \"part")
                    .trim_end_matches(".h\"")
                    .parse()
                    .unwrap();
                assert!(other < own, "{name}: {line}");
            }
        }
    }
}
