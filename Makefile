# Thin: the work is in scripts/.
.DEFAULT_GOAL := help
.PHONY: help demo test check

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## build the binary and show the pipeline at work, with the ClickHouse engine it brings along
	@scripts/setup demo
	@cargo build --profile demo -p forebay --no-default-features --features development
	@FOREBAY_LIBCHDB=$(CURDIR)/.cache/libchdb/libchdb.so $${CARGO_TARGET_DIR:-target}/demo/forebay demo

test: ## everything that CI runs, with a time budget for each stage
	@scripts/test all

check: ## the quick part: format, lints, unit tests
	@scripts/test check
