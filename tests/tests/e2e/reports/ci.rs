//! The guide's recipe for CI runs as it stands: without a baseline it passes, against an equal one
//! it passes, and where more is launched it fails with exit code 3, each time with the page.

use clscope_tests::artifacts::root;
use clscope_tests::{Mode, Runtime, Stage, artifacts};

/// The blocks of shell in the guide's page.
fn blocks() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("tools/guide/ci.md")).unwrap();
    let blocks = page.split("```sh\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_recipe_fails_a_job_for_what_rose_and_for_nothing_else() {
    let [job, keep] = &blocks()[..] else { panic!("the guide has other blocks") };
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        std::fs::write(stage.join("clscope.sh"), job).unwrap();
        let products = artifacts().clscope().parent().unwrap().to_owned();
        let old = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths(std::iter::once(products).chain(std::env::split_paths(&old)));
        let path = path.unwrap();
        let run = |launches: &str, limits: &str| {
            for made in ["report.html", "summary.md", "junit.xml"] {
                let _ = std::fs::remove_file(stage.join(made));
            }
            let run = stage.program(Mode::Bare, "", "sh").arg("clscope.sh");
            let run = run.arg(artifacts().fixture("linked")).arg(launches);
            let run =
                run.env("PATH", &path).env("LIMITS", limits).env("CLSCOPE_SENSORS", "off").run();
            let page = std::fs::read_to_string(stage.join("report.html"));
            assert!(page.is_ok_and(|page| page.contains("vector_add")), "{}", run.stderr);
            let summary = std::fs::read_to_string(stage.join("summary.md")).unwrap();
            (run.status.code(), summary, run.stderr)
        };
        let (code, summary, told) = run("50", "count:+0%");
        assert!(code == Some(0) && summary.contains("no baseline"), "{code:?} {summary} {told}");
        stage.program(Mode::Bare, "", "sh").args(["-c", keep]).run().success();
        let (code, summary, told) = run("50", "count:+0%,bytes:+0%");
        assert!(code == Some(0) && !summary.contains("no baseline"), "{code:?} {summary} {told}");
        let (code, summary, told) = run("60", "count:+0%");
        assert_eq!(code, Some(3), "{summary} {told}");
        // The outcome is written three times, and told once.
        assert_eq!(told.matches("--fail-on").count(), 1, "{told}");
        assert!(
            summary.contains("launches | 50 | 60") && summary.contains("OVER THE LIMIT"),
            "{summary}"
        );
        let junit = std::fs::read_to_string(stage.join("junit.xml")).unwrap();
        assert!(junit.contains("<failure"), "{junit}");
        // Joules that nobody measured are no passed limit. An application that fails ends the job.
        let (code, ..) = run("50", "energy:+5%");
        assert_eq!(code, Some(1));
        let failing = stage.program(Mode::Bare, "", "sh").args(["clscope.sh", "false"]);
        assert_eq!(failing.env("PATH", &path).run().status.code(), Some(1));
    }
}
