// The interface from C++: a layout in a class of its own.
#include <cstdio>
#include <memory>
#include <string>
#include <fcntl.h>
#include <unistd.h>
#include <lustre/lustreapi.h>

struct Freed {
	void operator()(llapi_layout *layout) const { llapi_layout_free(layout); }
};
using Layout = std::unique_ptr<llapi_layout, Freed>;

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	const std::string path = std::string(argv[1]) + "/plus";
	Layout layout(llapi_layout_alloc());
	if (!layout || llapi_layout_stripe_count_set(layout.get(), 3) != 0)
		return 3;
	const int fd = llapi_layout_file_create(path.c_str(), O_RDWR, 0644, layout.get());
	if (fd < 0 || write(fd, "c++", 3) != 3 || close(fd) != 0)
		return 4;
	Layout read(llapi_layout_get_by_path(path.c_str(), static_cast<llapi_layout_get_flags>(0)));
	uint64_t count = 0;
	if (!read || llapi_layout_stripe_count_get(read.get(), &count) != 0)
		return 5;
	lu_fid fid;
	if (llapi_path2fid(path.c_str(), &fid) != 0)
		return 6;
	std::printf("%llu " DFID "\n", static_cast<unsigned long long>(count), PFID(&fid));
	llapi_error(LLAPI_MSG_OFF, 0, "%s", "never told");
	return 0;
}
