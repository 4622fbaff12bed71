/* `firstlight bench report`: results as an HTML page and as SVG files. */
#ifndef FIRSTLIGHT_CLI_BENCH_REPORT_H
#define FIRSTLIGHT_CLI_BENCH_REPORT_H

int bench_report_main(int argc, char **argv);

#endif
