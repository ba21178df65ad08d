// SPDX-License-Identifier: MIT
//
// The main function of a test program that has none of its own.
int vipl_catch_run(int argc, char **argv);

int main(int argc, char **argv)
{
    return vipl_catch_run(argc, argv);
}
