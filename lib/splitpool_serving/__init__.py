"""What do router and worker do alike as HTTP servers of OpenAI's API?"""
