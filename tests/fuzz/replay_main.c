/* Feeds every file of a corpus folder to a fuzz target: the fuzzer as a plain test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int feed(const char *path)
{
	FILE *file = fopen(path, "rb");
	if (!file) {
		perror(path);
		return -1;
	}
	size_t cap = 16u << 20, len = 0;
	uint8_t *data = malloc(cap);
	if (data)
		len = fread(data, 1, cap, file);
	fclose(file);
	/* an allocation of exactly the input's size, so that a read past its end is seen */
	uint8_t *exact = malloc(len ? len : 1);
	if (data && exact) {
		for (size_t i = 0; i < len; i++)
			exact[i] = data[i];
		(void)LLVMFuzzerTestOneInput(exact, len);
	}
	free(exact);
	free(data);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned fed = 0;

	for (int i = 1; i < argc; i++) {
		DIR *dir = opendir(argv[i]);
		if (!dir) {
			perror(argv[i]);
			return 1;
		}
		for (struct dirent *e; (e = readdir(dir));) {
			char path[4096];
			if (e->d_name[0] == '.')
				continue;
			(void)snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
			if (feed(path))
				return 1;
			fed++;
		}
		closedir(dir);
	}
	printf("%u inputs\n", fed);
	return fed == 0; /* an empty corpus is a mistake */
}
