/* cli/program.c: main of the program muster; everything else is in the library, so that tests reach it. */
#include "cli/cli.h"

int main(int argc, char **argv)
{
	int rc = cli_main(argc, argv);

	/* Output that did not arrive is a failure, as tools that read a pipe expect. */
	if (fflush(stdout) || ferror(stdout))
		return rc ? rc : 1;
	return rc;
}
